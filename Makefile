# Each target does one thing; `make setup` is cheap when current.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.current
PYTEST ?= $(BIN)/python -m pytest -n 2 --dist loadfile -q

.PHONY: setup demo test test-real check bench clean

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

check: setup
	VENV=$(VENV) sh scripts/check.sh

bench: setup
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) var .mypy_cache .ruff_cache .import_linter_cache
