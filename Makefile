# Needs Python 3.11 or later and make, nothing else: `make help` lists the targets.
# All targets share .venv. `make demo` on its own installs the core only; once a target
# for developers has made the editable install, the demo runs from that one.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
# Two installs, two stamps: both lie in the venv, so that they vanish with it.
CORE := $(VENV)/.installed-core
DEV := $(VENV)/.installed-dev

# Two processes, half of the files each, of one thread: BLAS's would stand in their way.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest
PARALLEL := -n 2 --dist worksteal
LONGEST := --durations=15 --durations-min=10
# Data sets of the experiments.
DATA ?= $(or $(UNPOOLED_DATA),../shared/data)
# One case of each of these tests; with PYTEST_ARGS=--every-shape the functions that are
# annotated with a shape and that none of them enters are listed.
SHAPES := --jaxtyping-packages=unpooled,shape_tier.checked \
    --ignore=tests/data/sources/test_dask_source.py
SHAPED := $(addprefix tests/,attacks/test_attacks_on_memory.py cli/test_cli_demo.py \
    cli/test_cli_results.py data displays federation laws linalg models party protocol \
    report results secure study/test_plans_that_are_kept.py)
# Where tests over a real server and silos stand, so that no other file is looked through.
FEDERATION := $(addprefix tests/,integration cli/test_cli_start.py house/test_benchmarks.py)

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1
export NO_MKDOCS_2_WARNING = 1
# The tests start a hundred processes: none compiles the library anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo install debian-packages experiments experiments-quick test test-shapes test-slow test-federation test-long test-pythons audit yanked lint types notebooks docs release chart images bench bench-quick clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

demo: $(if $(wildcard $(DEV)),$(DEV),$(CORE))  ## four hospitals, in a minute: a table and report.html
	@$(BIN)/unpooled demo

install: $(DEV)  ## .venv with the library (editable), all extras, and the tools

debian-packages:  ## chromium and postgresql for the tests, where that is possible
	@scripts/install-debian-packages

test: $(DEV) debian-packages  ## the tests, without the slow ones
	@$(PYTEST) $(PARALLEL) $(PYTEST_ARGS)

test-shapes: $(DEV)  ## tests of all that takes arrays, with every array's shape checked
	@$(PYTEST) $(PARALLEL) $(SHAPES) -m "not slow and not browser" $(PYTEST_ARGS) $(SHAPED)

# With SAMPLE=N:TEXT one in N slow tests of each file, chosen by the text.
test-slow: $(DEV) debian-packages  ## the slow tests and random examples, no federation
	@$(PYTEST) $(PARALLEL) --hypothesis-profile=long $(addprefix --sample=,$(SAMPLE)) \
	    $(LONGEST) \
	    -m "(slow or hypothesis) and not federation" $(PYTEST_ARGS)

# Two processes with a consortium of a server and silos each; a file keeps to one of them.
test-federation: $(DEV) debian-packages  ## only those over a real server and silos
	@$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder \
	    -m federation $(LONGEST) $(PYTEST_ARGS) $(FEDERATION)

test-long: test-slow  ## the slow tests, random examples, and the federation
	@$(MAKE) --no-print-directory test-federation

lint: $(DEV)  ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(DEV)  ## pyright
	@$(BIN)/pyright

notebooks: $(DEV)  ## execute docs/notebooks, and store what they show
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/execute_notebooks.py

docs: $(DEV)  ## the documentation, into site/
	@# Without --quiet: it drops the warnings before --strict can count them.
	@$(BIN)/mkdocs build --strict

audit: $(DEV)  ## look the installed packages up among known vulnerabilities
	@scripts/audit-dependencies

yanked: $(DEV)  ## look up whether an installed or locked release was recalled
	@scripts/yanked-releases

test-pythons: $(DEV)  ## a few tests under the other versions of Python that are installed
	@scripts/test-other-pythons

release: $(DEV)  ## sdist and wheel, built twice, checked and installed, into dist/
	@scripts/check-release

chart: $(DEV)  ## lint deploy/chart as Helm does, and compare it with schemas of Kubernetes
	@scripts/check-chart

images: $(DEV)  ## build the images with buildah, and run a study in them
	@scripts/install-debian-packages buildah mmdebstrap
	@scripts/check-images

bench: $(DEV)  ## every script under benchmarks/, one after the other
	@for script in $(sort $(wildcard benchmarks/*.py)); do \
	    echo "== $$script"; $(BIN)/python "$$script" || exit; done

bench-quick: $(DEV)  ## each of them once on little data, printing only
	@for script in $$(grep -l -e '"--quick"' benchmarks/*.py); do \
	    echo "== $$script"; OPENBLAS_NUM_THREADS=1 $(BIN)/python "$$script" --quick || exit; done

# Both read the folder that UNPOOLED_DATA names; `experiments/fetch.py` makes one.
experiments: $(DEV)  ## remake every committed table and figure of the papers, in hours
	@for script in $(sort $(filter-out %/fetch.py %/compare.py,$(wildcard experiments/*.py))); do \
	    echo "== $$script"; UNPOOLED_DATA="$(DATA)" $(BIN)/python "$$script" \
	    $$(grep -q '"--data"' $$script && echo --data "$(DATA)") || exit; done

experiments-quick: $(DEV)  ## run each on little data, and compare with committed tables
	@if [ -d "$(DATA)" ]; then \
	    OPENBLAS_NUM_THREADS=1 UNPOOLED_DATA="$(DATA)" $(BIN)/python experiments/compare.py; \
	else echo "No data in $(DATA): no experiment was run."; fi

clean:  ## remove what the targets made, except .venv and the folders of studies
	rm -rf dist site report.html .hypothesis .pytest_cache .ruff_cache $(CORE) $(DEV)
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The core install copies the sources, so it is made again when one of them changes.
$(CORE): pyproject.toml $(wildcard README.md) $(shell find src -type f -not -name '*.pyc') | $(BIN)/pip
	@echo "Installing unpooled into $(VENV) ..."
	@$(PIP) install -q .
	@touch $@

$(DEV): pyproject.toml | $(BIN)/pip
	@echo "Installing unpooled and the developers' tools into $(VENV) ..."
	@$(PIP) install -q -e '.[dev]'
	@rm -f $(CORE)
	@touch $@

# pip is the last thing that venv writes: an interrupted one is completed, not trusted.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unpooled needs Python 3.11 or later; name one: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv $(VENV)
