# Each target does one thing. The environment is made as needed: `make demo` installs what a demo
# imports, `make setup` adds what tests and benchmarks do; both are cheap when it is up to date.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# The order of files is that of tests/conftest.py: the longest first.
PYTEST ?= $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -q
# Python compiles what is imported; pip would compile everything, for a third of its time.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
FOR_DEMO  := $(VENV)/.current-demo
FOR_TESTS := $(VENV)/.current-tests
# Images of containers often switch bytecode off: compiling the code again in every process of the
# tests was a tenth of their CPU time. Empty means that it is written.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup dev demo quick test test-real test-wheel check coverage web-all bench agreement seeds booked soak mutants fuzz clean
# Two pips at once would break the environment. Targets that can use several CPUs do so themselves.
.NOTPARALLEL:

setup: $(FOR_TESTS)

# An interrupted venv leaves a Python without pip behind.
define environment
@command -v $(PYTHON) >/dev/null || { echo "labfleet needs Python 3.11 or newer; set PYTHON=..." >&2; exit 2; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "labfleet needs Python 3.11 or newer; $$($(PYTHON) --version) found. Set PYTHON=..." >&2; exit 2; }
@$(BIN)/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv $(VENV)
endef

$(FOR_DEMO): pyproject.toml
	$(environment)
	$(PIP) -e '.[simulators]'
	@touch $@

$(FOR_TESTS): pyproject.toml
	$(environment)
	$(PIP) -e '.[dev]'
	@touch $@ $(FOR_DEMO)

# A server for whoever changes the program: it restarts when a file changes, and open pages load anew.
dev: setup
	$(BIN)/python scripts/develop.py $(ARGS)

demo: $(FOR_DEMO)
	$(BIN)/labfleet demo $(ARGS)

# The inner loop, in at most 60 CPU seconds; tests/quick.txt says what. One process, because a second
# one would import everything again, and fewer examples of each property.
quick: setup
	$(BIN)/python -m ruff check --no-fix --quiet --output-format=concise .
	$(BIN)/python -m ruff format --check --quiet .
	$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -q --tb=short -m "not real" --hypothesis-profile quick \
		$(ARGS) $$(sed 's/#.*//' tests/quick.txt)
	$(BIN)/labfleet rehearse --seeds 1 --hours 1 >/dev/null

test: setup
	$(PYTEST) -m "not real" $(ARGS)

test-real: setup
	VENV=$(VENV) bash scripts/test-real.sh

# The wheel in environments of its own, outside the checkout; test-real runs these tests too.
test-wheel: setup
	$(PYTEST) -m real tests/wheel $(ARGS)

# 200 short rehearsals with every kind of fault: a change must keep every rule in all of them.
seeds: setup
	$(BIN)/labfleet rehearse --seeds 1..200 --hours 6 --simulations 120 --jobs 2 --every-fault --json $(ARGS)

# An exam that 50 callers book at once, two weeks ahead, in 50 seeds with slow boots.
booked: setup
	$(BIN)/labfleet rehearse --book --seeds 1..50 --jobs 2 --json $(ARGS)

# As many long rehearsals as MINUTES allow; goes on where the last soak of the same fleet ended. They
# keep both CPUs busy beside a server, which must not lose the lead of any role meanwhile.
MINUTES ?= 10
soak: setup
	@mkdir -p var
	$(BIN)/python -m benchmarks.lost_leads -- \
		$(BIN)/labfleet rehearse --seeds 1..100000 --hours 24 --workers 30 --sessions 300 --simulations 240 --jobs 2 \
		--minutes $(MINUTES) --state var/soak.jsonl $(ARGS)

# Mutation tests: which small breaks does no test catch? Goes on where it ended; MINUTES as above.
SEED ?= 1
mutants: setup
	@mkdir -p var
	$(BIN)/python scripts/mutants.py --seed $(SEED) --count 100 --minutes $(MINUTES) \
		--state var/mutants.jsonl $(ARGS)

# Requests of every role with arbitrary names, queries and bodies: none may end in a 500.
REQUESTS ?= 5000
fuzz: setup
	LABFLEET_FUZZ=$(REQUESTS) $(BIN)/python -m pytest -q tests/api/test_api_document.py $(ARGS)

check: setup
	VENV=$(VENV) sh scripts/check.sh

# How many lines the tests run, in every process that they start; fails below 90 %. Tracing doubles the
# cost of `make test`, so it stands apart. The report comes also when tests fail (some count CPU seconds).
COVERED := $(CURDIR)/var/coverage
coverage: setup
	@rm -rf $(COVERED) && mkdir -p $(COVERED)
	@export COVERAGE_FILE=$(COVERED)/data; \
	$(BIN)/python -m coverage run -m pytest -n 2 --dist loadfile --no-loadscope-reorder -q \
		-m "not real" $(ARGS); tests=$$?; \
	$(BIN)/python -m coverage combine --quiet && $(BIN)/python -m coverage report && exit $$tests

# axe over every page of the console in each theme, width and role, where `make test-real` takes turns.
web-all: setup
	sh scripts/javascript.sh
	LABFLEET_WEB_ALL=1 $(BIN)/python -m pytest -q -m real tests/web/test_web_axe.py $(ARGS)

bench: setup
	$(BIN)/python -m benchmarks $(ARGS)

# Does a what-if agree with the real server? Records a day of real processes and plays it again.
agreement: setup
	$(BIN)/python -m benchmarks.agreement $(ARGS)

clean:
	rm -rf $(VENV) node_modules var .mypy_cache .ruff_cache .import_linter_cache
