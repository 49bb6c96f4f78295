# Makes the virtual environment from the locked requirements and calls nox, which knows the rest: `.venv/bin/nox -l`.
# Needs Python 3.11 or later, Go 1.26 or later (for the control plane of tests, built once into a cache) and make.

PYTHON ?= $(shell for python in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
READY := $(VENV)/.ready

.PHONY: demo test clean

# A rollout on a real control plane with 20 simulated nodes, watched in the terminal until it is complete.
demo: $(READY)
	$(VENV)/bin/nox -s demo

# What CI runs: every check and every test.
test: $(READY)
	$(VENV)/bin/nox

# Leaves the cache of built programs alone.
clean:
	rm -rf $(VENV) .nox .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage build dist

$(READY): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo 'No Python 3.11 or later found: install it, or name it with `make PYTHON=...`.' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $(READY)
