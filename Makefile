# On a machine with Python 3.11 or newer and make, every target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test lint types unit docs bench package clean

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

# Most of the suite's time is compilation, of programs that run for milliseconds: it need not be thorough. XLA's older
# emitters take a third of the time of the newer ones.
QUICKLY := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true \
  --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1

unit: setup
	XLA_FLAGS="$(QUICKLY)" $(BIN)/python -m pytest -n 2

# The site, in out/site, with warnings as errors: `--quiet` would hide them from `--strict`. With its search it is served
# by `python -m http.server -d out/site`.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

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
	rm -rf $(VENV) .bench out dist .pytest_cache .ruff_cache .hypothesis
