# Everything starts from a fresh clone with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test slow docs lint format clean lowest coverage mutation audit licences sbom build

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

$(VENV)/.release: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[release]'
	touch $@

lowest:  ## the tests with the lowest versions that pyproject.toml allows (gigabytes: torch)
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet -c constraints-lowest.txt -e '.[test]'
	rm -f $(VENV)-lowest/tests.xml
	-$(VENV)-lowest/bin/python -m pytest -p no:cacheprovider --junitxml=$(VENV)-lowest/tests.xml
	$(VENV)-lowest/bin/python packaging/outcome.py tests $(VENV)-lowest/tests.xml \
		benchmarks/results/lowest.json constraints-lowest.txt

coverage: $(VENV)/.dev  ## lines of src/hencler, without bench, that the tests reach
	$(BIN)/python -m pytest --cov=hencler --cov-report=term --cov-fail-under=95 \
		--cov-report=json:$(VENV)/coverage.json
	$(BIN)/python packaging/outcome.py coverage $(VENV)/coverage.json \
		benchmarks/results/coverage.json

mutation:  ## small faults in three modules that their tests must notice (an hour or more)
	$(PYTHON) -m venv $(VENV)-mutation
	sed 's/^pytest==.*/pytest==8.4.2/' constraints.txt > $(VENV)-mutation/constraints.txt
	$(VENV)-mutation/bin/python -m pip install --quiet -c $(VENV)-mutation/constraints.txt \
		-e '.[mutation]'
	$(VENV)-mutation/bin/python -m mutmut run --max-children 2
	$(VENV)-mutation/bin/python packaging/mutation.py benchmarks/results/mutation.json

audit: $(VENV)/.release  ## known vulnerabilities of everything that is pinned; needs the network
	$(BIN)/python packaging/audit.py constraints.txt

licences: $(VENV)/.release  ## docs/licences.md
	$(BIN)/python packaging/supply_chain.py licences docs/licences.md

build: $(VENV)/.release sbom  ## the wheel, with its bill of materials beside it
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist .

sbom: $(VENV)/.release  ## dist/sbom.json, CycloneDX
	$(BIN)/python packaging/supply_chain.py sbom dist/sbom.json

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-mutation mutants build dist docs/_build docs/gallery docs/api/generated
