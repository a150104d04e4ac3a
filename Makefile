# Every target makes its own environment when it is missing or older than pyproject.toml and constraints.txt.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# The demo needs the package alone, a third of what the tests need.
DEMO       := .venv-demo
DEMO_STAMP := $(DEMO)/.installed
# `langgraph dev` and deepagents pin versions that collide with those of the tests, so they have an environment of their own.
DEV_SERVER := .venv-dev-server
DEV_STAMP  := $(DEV_SERVER)/.installed

# Bytecode is kept, whatever the machine says: to compile the package and its tests anew takes a minute of each run.
unexport PYTHONDONTWRITEBYTECODE

# Environments at both ends of the ranges in pyproject.toml, for the interpreter in PYTHON.
OLDEST       := .venv-oldest
NEWEST       := .venv-newest
# Clients of every provider that Mem0's configurations name, which the tests need only here.
PROVIDERS    := .venv-providers
# Two versions of Mem0, which make stores.
SOURCES        := .venv-sources
ENDS_OF_RANGES := tests/adapters tests/conformance

.DEFAULT_GOAL := help
.PHONY: help demo test oldest newest providers package sources walk screenshots docs lint strings format bench bench-models faults dev-server clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

define NEW_ENOUGH
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "langmem_adapter needs Python 3.11 or newer; run: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
endef

$(STAMP): pyproject.toml constraints.txt
	$(NEW_ENOUGH)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[all]" --group dev
	@touch $(STAMP)

$(DEMO_STAMP): pyproject.toml constraints.txt
	$(NEW_ENOUGH)
	@test -x $(DEMO)/bin/python || $(PYTHON) -m venv $(DEMO)
	@echo "installing into $(DEMO) (once, about 300 MB)"
	@$(DEMO)/bin/python -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt --editable .
	@touch $(DEMO_STAMP)

$(DEV_STAMP): pyproject.toml constraints-langgraph-dev.txt
	@test -x $(DEV_SERVER)/bin/python || $(PYTHON) -m venv $(DEV_SERVER)
	@$(DEV_SERVER)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(DEV_SERVER)/bin/python -m pip install --quiet --constraint constraints-langgraph-dev.txt --editable ".[server]" "langgraph-cli[inmem]" deepagents
	@touch $(DEV_STAMP)

demo: $(DEMO_STAMP)  ## play a short conversation and look at what is remembered (no key, no network)
	@$(DEMO)/bin/langmem-adapter demo

test: $(STAMP) $(if $(CI),$(DEV_STAMP))  ## run every test, in parallel; those of the page in a browser where CI is set
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(if $(CI),,--ignore tests/browser)

oldest:  ## run the integration and conformance tests with the lowest versions that pyproject.toml allows
	$(NEW_ENOUGH)
	@$(PYTHON) -m venv --clear $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --quiet --upgrade pip uv
	@$(OLDEST)/bin/uv pip compile --quiet --no-header --resolution lowest-direct --python $(OLDEST)/bin/python --extra all \
	  --group test pyproject.toml --output-file $(OLDEST)/lowest.txt
	@$(OLDEST)/bin/python -m pip install --quiet --requirement $(OLDEST)/lowest.txt --editable ".[all]"
	$(OLDEST)/bin/python -m pytest -n 2 --dist loadgroup $(ENDS_OF_RANGES)

newest:  ## run the same tests with the newest versions; PYTHON=python3.13 chooses another interpreter
	$(NEW_ENOUGH)
	@$(PYTHON) -m venv --clear $(NEWEST)
	@$(NEWEST)/bin/python -m pip install --quiet --upgrade pip
	@$(NEWEST)/bin/python -m pip install --quiet --editable ".[all]" --group test
	$(NEWEST)/bin/python -m pytest -n 2 --dist loadgroup $(ENDS_OF_RANGES)

providers:  ## build the real class of every provider that a Mem0 configuration names, and stores of the real Mem0 (downloads 1 GB)
	$(NEW_ENOUGH)
	@test -x $(PROVIDERS)/bin/python || $(PYTHON) -m venv $(PROVIDERS)
	@$(PROVIDERS)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(PROVIDERS)/bin/python -m pip install --quiet --editable ".[all]" --group test --group providers
	$(PROVIDERS)/bin/python -m pytest tests/adapters/providers.py

sources:  ## make the stores of the real Mem0 0.1.118 and 2.2.1 again, which the tests of migrate read (downloads 200 MB)
	$(NEW_ENOUGH)
	rm -rf $(SOURCES)
	for version in 0.1.118 2.2.1; do $(PYTHON) -m venv $(SOURCES)/$$version && \
	  $(SOURCES)/$$version/bin/python -m pip install --quiet mem0ai==$$version faiss-cpu qdrant-client==1.20.0 && \
	  for kind in faiss qdrant; do mkdir -p $(SOURCES)/stores/mem0-$${version%%.*}-$$kind && $(SOURCES)/$$version/bin/python \
	    tests/migration/sources/mem0_store.py $$kind $(SOURCES)/stores/mem0-$${version%%.*}-$$kind || exit 1; done; done
	rm -rf $(SOURCES)/stores/*/home
	tar -C $(SOURCES)/stores --sort=name --owner=0 --group=0 -cJf tests/migration/sources/mem0.tar.xz .

walk: $(STAMP)  ## look at every view of the page in a real browser (needs chromium)
	$(BIN)/python -m pytest tests/browser

screenshots: $(STAMP)  ## take the pictures and the recording that README and guide show (needs chromium)
	$(BIN)/python -m tests.browser.screenshots

docs: $(STAMP)  ## write the generated pages of examples/guide, and the programs and outputs that the others show
	$(BIN)/python -m tests.guide

lint: $(STAMP)  ## formatting, ruff, mypy, import-linter, the budget of lines, banned words, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.budget
	$(BIN)/python -m tests.words
	$(BIN)/codespell langmem_adapter graphs tests examples *.md

strings: $(STAMP)  ## print every string that a user reads: help, errors, notes, page, OpenAPI, MCP
	@$(BIN)/python -m tests.strings

format: $(STAMP)  ## rewrite the formatting, sort the imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --select I .

bench: $(STAMP)  ## measure ratios in one run, as JSON lines with goal and verdict
	$(BIN)/python tests/benchmarks/run.py

bench-models: $(STAMP)  ## a real chat model, both profiles: MODEL_URL=http://…/v1 MODEL_NAME=…, and AGAINST=mem0 where it is installed
	@test -n "$(MODEL_URL)" -a -n "$(MODEL_NAME)" || { echo "give MODEL_URL, an OpenAI-compatible server, and MODEL_NAME"; exit 2; }
	LANGMEM_ADAPTER_BASE_URL="$(MODEL_URL)" LANGMEM_ADAPTER_API_KEY="$${MODEL_KEY:-none}" LANGMEM_ADAPTER_MODEL_PROFILE=full \
	  $(BIN)/langmem-adapter eval prompts --model "openai:$(MODEL_NAME)" $(if $(AGAINST),--against $(AGAINST))
	LANGMEM_ADAPTER_BASE_URL="$(MODEL_URL)" LANGMEM_ADAPTER_API_KEY="$${MODEL_KEY:-none}" LANGMEM_ADAPTER_MODEL_PROFILE=small \
	  $(BIN)/langmem-adapter eval prompts --model "openai:$(MODEL_NAME)"

faults: $(STAMP)  ## kill processes, damage files, break disks: hundreds of times, and report (some minutes)
	FAULTS=long $(BIN)/python -m pytest tests/faults tests/properties/test_machine.py tests/storage/graph/test_together.py \
	  tests/properties/test_filters_everywhere.py tests/properties/test_lossless.py tests/pipeline/test_told_in_any_order.py tests/mirror/test_campaign.py --timeout 1800

package:  ## build the package, install it on every interpreter at hand, and run demo, add, search and serve there
	@bash tests/package.sh

dev-server: $(DEV_STAMP)  ## make the environment in which the tests start `langgraph dev` and deepagents

clean:  ## remove the environments and every cache
	rm -rf $(VENV) $(DEMO) $(DEV_SERVER) $(OLDEST) $(NEWEST) $(PROVIDERS) $(SOURCES) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
