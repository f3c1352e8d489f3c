# Commands for developers; each sets up a virtual environment first. `make` alone lists them.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
OLDEST ?= .venv-oldest
N ?= 5
SEED ?= 0
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo quick check test test-oldest fuzz halves mutate bench clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1|/' | \
		while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

setup: $(VENV)/.installed  ## install the package with everything that tests need

$(VENV)/.installed: pyproject.toml .ci/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e '.[dev,trainers]'
	touch $@

demo: setup  ## train a small detector, validate it after every epoch, write a report
	$(BIN)/python -m torch_vocmetrics.examples.validate_every_epoch --report build/demo/report.html

quick: setup  ## run the tests that answer within a minute
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile -m 'not slow' tests/unit tests/contracts

check: setup  ## lint and type-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: setup  ## run all tests
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile

test-oldest: $(OLDEST)/.installed  ## run unit, golden and parity tests with the oldest versions
	$(OLDEST)/bin/python tests/contracts/apis.py
	$(OLDEST)/bin/python -m pip list --disable-pip-version-check | \
		grep -E '^(numpy|pillow|pycocotools|scipy|torch|torchvision|triton) '
	$(OLDEST)/bin/python -m pytest -q -n $(JOBS) --dist loadfile tests/unit tests/golden tests/parity

$(OLDEST)/.installed: pyproject.toml .ci/oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c .ci/oldest.txt \
		-e . pytest pytest-xdist scipy
	touch $@

fuzz: setup  ## search for faults with random inputs for N minutes
	cd tests && PYTHONPATH=.. $(abspath $(BIN))/python -m fuzz --minutes $(N) --seed $(SEED)

halves: setup  ## run golden tests on folders that lack half of the fixtures and cases
	$(BIN)/python tests/halved_folders.py

mutate: setup  ## plant small mistakes and list those that no test notices
	cd tests && PYTHONPATH=.. $(abspath $(BIN))/python -m mutation --jobs $(JOBS)

bench: setup  ## compare speed and memory with other evaluators
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.detection

clean:  ## remove the virtual environment and everything that was built
	rm -rf $(VENV) $(OLDEST) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
