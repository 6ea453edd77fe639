# The two commands of the README are `make demo` and `make test`; both set everything up themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test test-data check format clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)  ## counterfactuals of Tree-Cycles graphs that the package generates itself
	$(BIN)/counteredge explain --dataset Tree-Cycles --explainer xplore --limit 200 --out runs/demo

test: $(STAMP)  ## every test, with coverage
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --cov --cov-report=term:skip-covered

test-data: $(STAMP)  ## every dataset that this machine has, loaded and compared with the paper's table
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m data tests/datasets

check: $(STAMP)  ## lint, types, import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)  ## mend what the formatter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) runs build dist *.egg-info
