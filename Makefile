# `make demo` and `make test` need only Python 3.11 or newer and make; everything else is installed in .venv beside this file.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OUT ?= out

# One worker per core, at most 8, because each imports torch; one torch thread per worker, so that workers do not compete for cores.
# With worksteal a worker runs neighbouring tests, so most fixtures of a module are made once, not by every worker.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses=8 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test lint format clean distclean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP)  ## train, stream and make a page in out/ (choose with OUT=folder): a minute on 2 cores
	$(BIN)/phased demo --out $(OUT)

test: lint  ## lint, types, import contracts, tests
	$(PYTEST)

lint: $(STAMP)  ## style, types and import contracts only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the files made by builds, tests and the demo
	rm -rf build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean  ## clean, and remove .venv too
	rm -rf $(VENV)

# Installed again whenever the dependencies or the compiled core change; Python files need no reinstall.
$(STAMP): pyproject.toml constraints.txt CMakeLists.txt $(wildcard src/phased/kernels/cpu/*) $(wildcard src/phased/kernels/shared/*)
	@command -v $(PYTHON) >/dev/null || { echo "phased needs Python 3.11 or newer, but '$(PYTHON)' was not found. Name one: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "phased needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu install it with: sudo apt install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	@touch $@
