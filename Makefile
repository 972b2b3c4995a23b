# Each target does one thing; `make setup` is cheap when current.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.current
# The order of files is that of tests/conftest.py: the longest first.
PYTEST ?= $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -q
# Images of containers often switch bytecode off: compiling the code again in every process of the
# tests was a tenth of their CPU time. Empty means that it is written.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test test-real check bench agreement seeds soak mutants clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "labfleet needs Python 3.11 or newer; set PYTHON=..." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "labfleet needs Python 3.11 or newer; $$($(PYTHON) --version) found. Set PYTHON=..." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: setup
	$(BIN)/labfleet demo $(ARGS)

test: setup
	$(PYTEST) -m "not real" $(ARGS)

test-real: setup
	VENV=$(VENV) bash scripts/test-real.sh

# 200 short rehearsals with every kind of fault: a change must keep every rule in all of them.
seeds: setup
	$(BIN)/labfleet rehearse --seeds 1..200 --hours 6 --jobs 2 --every-fault --json $(ARGS)

# As many long rehearsals as MINUTES allow; goes on where the last soak of the same fleet ended.
MINUTES ?= 10
soak: setup
	@mkdir -p var
	$(BIN)/labfleet rehearse --seeds 1..100000 --hours 24 --workers 30 --sessions 300 --jobs 2 \
		--minutes $(MINUTES) --state var/soak.jsonl $(ARGS)

# Which small breaks of the product do the tests not see? Goes on where it ended; MINUTES as above.
SEED ?= 1
mutants: setup
	@mkdir -p var
	$(BIN)/python scripts/mutants.py --seed $(SEED) --count 100 --minutes $(MINUTES) \
		--state var/mutants.jsonl $(ARGS)

check: setup
	VENV=$(VENV) sh scripts/check.sh

bench: setup
	$(BIN)/python -m benchmarks $(ARGS)

# Does a what-if agree with the real server? A recorded day of real processes, and the same played.
agreement: setup
	$(BIN)/python -m benchmarks.agreement $(ARGS)

clean:
	rm -rf $(VENV) var .mypy_cache .ruff_cache .import_linter_cache
