# On a machine with Python 3.11 or newer and make, every target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test lint types unit bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/irlax demo

test: lint types unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/basedpyright

unit: setup
	$(BIN)/python -m pytest -n 2

# The peers go to .bench/; `make bench PARTS=gradient,fit` runs a part, BENCH_OPTIONS=--quick looks whether all is well.
PARTS ?= gradient,fit,causal,engine,scale,imports
BENCH_OPTIONS ?= --long
bench: setup
	$(BIN)/python -m benchmarks.speed.run --only $(PARTS) $(BENCH_OPTIONS)

clean:
	rm -rf $(VENV) .bench out dist .pytest_cache .ruff_cache .hypothesis
