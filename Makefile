# Each target sets up what it needs. They need Python 3.11 or later and git.
#
#   make demo    runs the main job on a real release of SGLang
#   make check   lints, type-checks, and runs every test without PyTorch and without an engine
#   make test    runs every test

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# The tests start hundreds of interpreters: none of them should compile pkgtools again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check fast test lint types clean

demo: $(VENV)/installed
	PATH="$(abspath $(BIN)):$$PATH" sh examples/demo.sh

# Lint and types run beside the tests: mypy alone would leave the other cores idle.
check: $(VENV)/checked
	$(MAKE) --jobs=2 lint fast

# The tests take from milliseconds to seconds: with worksteal, a worker that is done takes over
# tests of another. They wait for other programs and disks: three workers keep two cores busy.
fast: $(VENV)/checked
	$(BIN)/pytest -n $$($(BIN)/python -c "import os; print(os.cpu_count() * 3 // 2 or 1)") \
	--dist worksteal -m "not torch and not server and not engine"

# Random searches and kill tests run in full here, and in a short form everywhere else.
test: lint $(VENV)/tested
	PKGTOOLS_KILLS=$${PKGTOOLS_KILLS:-200} PKGTOOLS_DIFF_CASES=$${PKGTOOLS_DIFF_CASES:-2000} \
	PKGTOOLS_BACKENDS="$(abspath $(VENV))/backends" \
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pkgtools changelog check

types: $(VENV)/checked
	$(BIN)/mypy pkgtools checks tests benchmarks docker patches

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/checked: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/tested: $(VENV)/checked
	@echo "installing PyTorch and what the servers need: some GB, some minutes"
	$(BIN)/python -m pip install --quiet --group test
	$(BIN)/python -m pip install --quiet --upgrade --target $(VENV)/backends --group backends \
		|| rm -rf $(VENV)/backends  # tests without them are skipped
	touch $@

clean:
	rm -rf $(VENV) build dist
