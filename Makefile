# Two commands are enough on a bare Debian: `make demo` and `make test`. Everything here may be repeated at any time.
PYTHON ?= python3
MODEL ?= off
FAULT ?= pool
KEEP ?=
REPEAT ?= 1
BIN := .venv/bin

.PHONY: help setup setup-demo demo stop test tests-together checks-beside test-long lint types types-demo style imports clean

help:
	@echo "make demo [MODEL=off|local] [FAULT=pool|release|code] [REPEAT=2] [KEEP=1]   a service breaks and is healed, watched to the end"
	@echo "make stop        end a demo that was kept"
	@echo "make setup       all that tests and checks need, installed or named"
	@echo "make test [MODEL=local]   every kind of test once; with the local model too when it is there"
	@echo "make test-long [MODEL=local]   the loops that give the figures; fails where the local model is missing"
	@echo "make lint        ruff, mypy, import contracts"
	@echo "make clean       remove what was built; .autopatch, where incidents are, stays"

setup:
	@$(PYTHON) -m infra.setup dev

setup-demo:
	@$(PYTHON) -m infra.setup demo

demo: setup-demo
	@$(if $(filter local,$(MODEL)),$(BIN)/autopatch model pull)
	@$(BIN)/autopatch demo --model $(MODEL) --fault $(FAULT) --repeat $(REPEAT) $(if $(KEEP),--keep)

stop:
	@$(BIN)/autopatch demo --stop

lint: setup
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types types-demo style imports

types:
	$(BIN)/mypy --strict autopatch services infra tests bench

types-demo:
	$(BIN)/mypy --strict --cache-dir .mypy_cache/demo infra/demo/tests/*.py

style:
	$(BIN)/ruff check .

imports:
	$(BIN)/lint-imports

test: setup
	@$(if $(filter local,$(MODEL)),$(BIN)/autopatch model pull)
	@$(MAKE) --no-print-directory --jobs 2 tests-together checks-beside
	$(BIN)/pytest -m "quiet and not long$(if $(filter local,$(MODEL)),, and not local)" tests/e2e infra/demo \
		-n 2 --dist loadfile --no-loadscope-reorder -v --durations 10

# the files that take longest come first, so that none is left over for one process at the end
tests-together:
	$(BIN)/pytest -m "not long and not quiet" tests/flow services autopatch infra bench tests/architecture \
		-n 3 --dist loadfile --no-loadscope-reorder -q --durations 20

# tests wait for each other's processes, checks for nobody
checks-beside:
	@nice -n 19 $(MAKE) --no-print-directory types types-demo style imports

test-long: setup
	@$(if $(filter local,$(MODEL)),$(BIN)/autopatch model pull)
	$(BIN)/pytest -m long

clean:
	@[ ! -d .cache/engine ] || infra/images/engine.sh stop .cache/engine
	rm -rf --one-file-system .cache .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
