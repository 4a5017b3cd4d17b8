# On a machine with Python 3.11 or newer and make, every target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

MAKEFLAGS += --no-print-directory

.PHONY: setup demo test quick lint types unit docs notebooks bench package clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/irlax demo

# What CI runs: everything. Types are checked beside the suite, whose two workers are not busy all the time.
test: setup
	@began=$$(date +%s); $(MAKE) lint && $(MAKE) --jobs 2 types unit; code=$$?; \
	took=$$(($$(date +%s) - began)); \
	printf 'make test: %d min %02d s, without installation\n' $$((took / 60)) $$((took % 60)); exit $$code

# For the loop of daily work, in under a minute: the linter, and the tests that tests/quick.txt names.
quick: setup
	@began=$$(date +%s); $(MAKE) lint && $(BIN)/python -m pytest -n 2 @tests/quick.txt; code=$$?; \
	printf 'make quick: %d s, without installation\n' $$(($$(date +%s) - began)); exit $$code

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# With room for its young objects it looks for garbage less often. Beside the suite it takes what the workers leave.
types: setup
	NODE_OPTIONS=--max-semi-space-size=128 nice -n 19 $(BIN)/basedpyright

# How programs are compiled for tests, and where they are kept, stands in tests/conftest.py. Bytecode is kept even where
# the environment says otherwise: many tests start processes, each of which would compile all of irlax first.
unit: setup
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2

# The site, in out/site, with warnings as errors: `--quiet` would hide them from `--strict`. With its search it is served
# by `python -m http.server -d out/site`.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# All tutorials as notebooks, in out/notebooks.
notebooks: setup
	$(BIN)/python -m docs.tools.notebooks out/notebooks

# The peers go to .bench/. Say `make bench BENCH="--only gradient,fit"` for some parts, "--quick" to see if
# all is well, "--long" for everything.
BENCH ?=
bench: setup
	$(BIN)/python -m benchmarks.speed.run $(BENCH)

# Both archives, and the wheel in an environment that holds nothing else.
package: setup
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv dist/venv
	dist/venv/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	dist/venv/bin/python tests/packaging/smoke.py

clean:
	rm -rf $(VENV) .bench out dist .pytest_cache .ruff_cache .hypothesis .jax_cache
