# Two commands for a machine that has only make and Python >= 3.11:
#
#   make search    set up .venv, run the main job, retrain the winner, export its weights
#   make test      set up .venv, run every gate and test
#
# The set-up is done once, and again where pyproject.toml or constraints.txt changed.

BIN := .venv/bin
READY := .venv/.ready
SUITABLE := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python -c '$(SUITABLE)' 2>/dev/null && echo $$python && break; done)

.PHONY: search test test-on-ray test-without-ray
.DELETE_ON_ERROR:

search: $(READY)
	@folder="runs/$$(date +%Y%m%d-%H%M%S)"; \
	$(BIN)/nas search --dir "$$folder" && \
	$(BIN)/nas retrain "$$folder" --seeds 3 && \
	$(BIN)/nas export "$$folder"

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -m clock
	@$(MAKE) --no-print-directory -j 2 test-on-ray test-without-ray

# Side by side: tests on Ray mostly wait for processes, and have precedence.
test-on-ray:
	$(BIN)/python -m pytest -q -m "ray and not clock"

test-without-ray:
	nice -n 10 $(BIN)/python -m pytest -q -m "not ray and not clock"

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one by: make PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv || { rm -rf .venv; \
	echo "$(PYTHON) cannot make an environment; install its venv module (Debian: apt install python3-venv)" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@
