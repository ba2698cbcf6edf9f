# Two commands do all the set-up: `make demo` runs the main job on a real release
# of SGLang, `make test` runs every check. Both need Python 3.11 or later and git.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint clean

demo: $(VENV)/installed
	PATH="$(abspath $(BIN)):$$PATH" sh examples/demo.sh

test: $(VENV)/tested lint
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/tested
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy pkgtools checks tests benchmarks docker patches
	$(BIN)/pkgtools changelog check

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/tested: $(VENV)/installed
	@echo "the next line installs what the checks need, PyTorch included: some GB, some minutes"
	$(BIN)/python -m pip install --quiet --group test
	touch $@

clean:
	rm -rf $(VENV) build dist
