# The README's two commands are `make run` and `make test`; everything they need is set up by `make setup`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup run test check format bench eval conformance soak lock clean

setup: $(STAMP)

$(STAMP): pyproject.toml requirements-dev.txt $(wildcard packages/*/pyproject.toml)
	@echo 'Setting up $(VENV); this takes a minute or two.'
	@$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.txt
	for package in . $(wildcard packages/*); do \
	  $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e $$package || exit 1; done
	touch $@

run: setup
	$(BIN)/toolcrib up

test: setup
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python scripts/reference.py --check

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python -m bench

eval: setup
	$(BIN)/toolcrib eval data $(DATA)

conformance: setup
	$(BIN)/python tests/conformance/run.py

soak: setup
	TOOLCRIB_SOAK=$(or $(TIMES),5) $(BIN)/python -m pytest --timeout 3600 -s \
	  tests/interaction/foundation/test_kill_during_writes.py tests/interaction/gateway/test_gateway_faults.py

# Locks hold hashes only: no index, no path of the machine that made them.
lock:
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet pyproject.toml --all-extras --group dev --generate-hashes --no-emit-index-url \
	  --no-annotate --no-header -o requirements-dev.txt
	$(BIN)/uv pip compile --quiet pyproject.toml --extra server --extra postgres --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header -c requirements-dev.txt -o requirements.txt

clean:
	rm -rf $(VENV) build dist
