# make demo    sets itself up, trains a small detector and validates every epoch
# make test    sets itself up and runs all tests
# make fuzz    searches for faults with random inputs for N minutes

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
N ?= 5
SEED ?= 0
JOBS ?= 2

.PHONY: setup demo test fuzz clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml .ci/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e '.[dev,trainers]'
	touch $@

demo: setup
	$(BIN)/python -m torch_vocmetrics.examples.validate_every_epoch

test: setup
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile

fuzz: setup
	cd tests && PYTHONPATH=.. $(abspath $(BIN))/python -m fuzz --minutes $(N) --seed $(SEED)

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
