# make demo    sets itself up, trains a small detector and validates every epoch
# make test    sets itself up and runs all tests
# make fuzz    N random cases: fast path = reference = pycocotools, to the last bit

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
N ?= 2000
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
	VOCMETRICS_FUZZ=$(N) $(BIN)/python -m pytest -q tests/properties -s

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
