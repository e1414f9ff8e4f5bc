# Everything starts from a fresh clone with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test slow docs lint format clean

demo: $(VENV)/.core  ## run the main job on an embedded graph
	$(BIN)/hencler demo

test: $(VENV)/.dev lint  ## static checks, then the tests
	$(BIN)/python -m pytest

slow: $(VENV)/.dev  ## the tests marked slow
	$(BIN)/python -m pytest -m slow

docs: $(VENV)/.docs  ## the pages, in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -d docs/_build/doctrees docs docs/_build/html

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[report]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist docs/_build docs/gallery docs/api/generated
