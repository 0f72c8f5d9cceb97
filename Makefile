# Every target makes its own .venv when there is none; Python 3.11 or later, git and make are all it needs.
#   make demo   from the bundled data to equations, figures and report, in demo-output/
#   make test   tests, doctests and the examples of README and docs
#   make kernels  the numeric and printed tests once more, with other kernels of OpenBLAS
#   make check  format, lint, types, documentation
#   make bench  the tables in benchmarks/results/
#   make docs   the documentation in site/
#   make outputs  what code prints and draws in README and docs, written there as it is now

VENV := .venv
BIN := $(VENV)/bin

# A version manager may offer names that do not run, so each candidate is tried.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# The matrices are small: threads inside BLAS only contend with the test workers.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
WORKERS ?= 2
# A link that leads nowhere is an error; the notice is about a version of mkdocs that is not in use.
BUILD_DOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: help demo test kernels check format bench docs outputs clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.run
	$(BIN)/cindy demo --out demo-output

test: $(VENV)/.dev
	$(THREADS) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup tests src $(ARGS)

# No result may hang on the kernels that OpenBLAS picks for a processor: with AVX-512 it picks SkylakeX, and
# Haswell is the other; elsewhere it picks Haswell or Zen, which are alike, and Sandybridge is the other.
KERNEL ?= $(shell grep -qm1 avx512f /proc/cpuinfo 2>/dev/null && echo Haswell || echo Sandybridge)
# What prints digits, and the laws of linear algebra; whole recoveries have run in `make test`.
NUMERIC := $(wildcard tests/test_examples.py tests/test_docs.py tests/solver/test_loop.py \
	tests/solver/test_certificates.py tests/test_least_squares.py tests/test_regression.py tests/selection \
	tests/states src)

kernels: $(VENV)/.dev
	OPENBLAS_CORETYPE=$(KERNEL) $(THREADS) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(NUMERIC) -k "prints or not (test_docs or test_examples)" $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BUILD_DOCS)

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev
	$(THREADS) $(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/.dev
	$(BUILD_DOCS)

# One process: the tests write to the same pages.
outputs: $(VENV)/.dev
	$(THREADS) CINDY_UPDATE_DOCS=1 $(BIN)/python -m pytest tests/test_docs.py tests/test_examples.py tests/test_notebooks.py -k prints

clean:
	rm -rf $(VENV) build dist site demo-output

# Two stamps, so that the demo does not wait for the developers' tools.
$(VENV)/.run: pyproject.toml | $(VENV)/.made
	$(BIN)/pip install --quiet -e '.[all]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.made
	$(BIN)/pip install --quiet -e '.[all,pysindy,bench]' --group dev
	@touch $@ $(VENV)/.run

# pip 25.1 is the first that installs dependency groups.
$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or later is needed, and none was found; set PYTHON=" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	@touch $@
