# The commands for newcomers and CI. Each target does its own set-up, once, and again only when
# pyproject.toml or constraints.txt change.

PYTHON ?= python3
VENV ?= .venv
MODEL ?= smollm2
WORKERS ?= 2

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEV_INSTALLED := $(VENV)/.installed-dev
CACHES := .pytest_cache .ruff_cache .hypothesis .import_linter_cache

.DEFAULT_GOAL := help
.PHONY: help install setup model demo docs docs-serve docs-pages pictures house-model test \
	test-more test-all mutants test-slow test-browser test-gpu conformance soak attack overhead gpu-report gpu-install \
	gpu-wheels lint format bench bench-check bench-update clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "A Python of your own: make PYTHON=python3.12 TARGET. It must be 3.11, 3.12 or 3.13."

install: $(INSTALLED) ## create the virtual environment and install minivllm

setup: $(DEV_INSTALLED) ## also install what tests, benches and the site need

model: install ## download the default model, unless it is there
	@echo "The model $(MODEL), unless it is here. smollm2 is half a gigabyte: about a minute."
	$(BIN)/minivllm model fetch $(MODEL)

demo: STEP_1 = Step 1 of 3. #
demo: install ## watch a real chat model answer several users at once (without a network: the house model)
	@echo "Step 2 of 3. The model $(MODEL), unless it is here. smollm2 is half a gigabyte: about a minute."
	@model=$(MODEL); $(BIN)/minivllm model fetch $(MODEL) || { model=house; \
		echo "So the house model answers, which comes with minivllm."; }; \
	echo "Step 3 of 3. The demo, which loads for some seconds: q leaves it, ? shows the keys."; \
	$(BIN)/minivllm demo --model $$model

pictures: setup ## draw the pictures of the docs from the committed recordings
	$(BIN)/python tools/pictures/make_pictures.py
	$(BIN)/python tools/pictures/make_hero.py

# From a seed, on our own text. At the end it prints how many of 200 held-out prompts get a
# grammatical answer (at least 95 %) and a right one, and how many questions about serving.
house-model: setup ## train and check the house model: under an hour on two cores (HOUSE=options)
	OMP_NUM_THREADS=2 GOMP_SPINCOUNT=2000 $(BIN)/python tools/house_model/train.py \
		--out $(or $(OUT),minivllm/runtime/store/house) $(HOUSE)

docs-pages: setup ## write what pages show of the code and of lessons (ONLY=3, ONLY=use/cli.md)
	$(BIN)/python tools/site/make_pages.py $(if $(ONLY),--only $(ONLY))

docs: setup ## build the site into site/; open site/index.html; the playground needs docs-serve
	-@$(BIN)/python tools/site/fetch_pyodide.py
	$(BIN)/python tools/site/prepare.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: setup ## show the site on http://127.0.0.1:8008, and again whenever a page changes
	-@$(BIN)/python tools/site/fetch_pyodide.py
	$(BIN)/python tools/site/prepare.py
	$(BIN)/python tools/site/prepare.py --watch & trap "kill $$!" INT TERM EXIT; \
		NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8008

# One worker per core, with a single thread each, so that workers do not wait for each other's threads.
TESTS = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not gpu and not browser" \
	--numprocesses $(WORKERS) --dist worksteal

test: setup ## run the tests of the promises: minutes, no network
	$(TESTS) --ignore tests/more

test-more: setup ## run all other tests; those of smollm2 need it, so it is downloaded if possible
	@$(BIN)/minivllm model fetch $(MODEL) || echo "So the tests that need $(MODEL) are skipped."
	$(TESTS) tests/more

test-all: lint test test-more ## what CI runs

mutants: setup model ## break core and engine in many small ways; the tests must notice (MUTANTS=options)
	$(BIN)/python tools/mutants/run.py --workers $(WORKERS) $(MUTANTS)

test-slow: setup model ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow --timeout 3600

test-browser: setup ## visit every page of the site in a Chromium that is on this machine
	$(BIN)/python -m pytest tests/more/docs -m browser --numprocesses $(WORKERS) --dist worksteal

test-gpu: setup ## run the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu

conformance: setup model ## run clients against the server: lm-eval, openai, litellm, ...
	for client in lm-eval openai instructor litellm guidellm tools; do \
		venv=.venv-conformance/$$client; \
		test -x $$venv/bin/python || $(PYTHON) -m venv $$venv || exit 1; \
		$$venv/bin/pip install -q -r tools/conformance/$$client.txt || exit 1; \
	done
	$(BIN)/python tools/conformance/run.py --environments .venv-conformance --model $(MODEL)

soak: setup model ## serve 200 streams, then 10,000 clients that leave: minutes (SOAK=options)
	$(BIN)/python tools/load/soak.py --model $(MODEL) $(SOAK)

attack: setup ## attack a server over HTTP (ATTACK=names of attacks)
	$(BIN)/python tools/load/attack.py $(ATTACK)

overhead: setup model ## time per token of 16 streams, served against offline (OVERHEAD=options)
	$(BIN)/python tools/load/overhead.py --model $(MODEL) $(OVERHEAD)

# A machine without network has no virtual environment: its own Python runs the report, with the
# wheels copied to it.
GPU_WHEELS := $(wildcard .gpu-wheels/*.whl)
GPU_DOWNLOAD = $(BIN)/pip download -q --no-deps --only-binary :all: \
	--platform manylinux2014_x86_64 --platform manylinux_2_28_x86_64 \
	--python-version $(or $(PYTHON_VERSION),3.12) -d .gpu-wheels

gpu-report: $(if $(GPU_WHEELS),gpu-install,setup) ## measure a GPU into OUT (STAGES=names of some)
	$(if $(GPU_WHEELS),$(PYTHON),$(BIN)/python) tools/gpu_report $(STAGES) --out $(or $(OUT),report)

gpu-install: ## install minivllm and the wheels of .gpu-wheels into PYTHON, without network
	$(PYTHON) -m pip install -q --no-deps --no-index --no-build-isolation $(GPU_WHEELS) -e .

# numpy is limited because Triton 3.6 cannot interpret kernels (for the x-ray) with a newer one.
gpu-wheels: setup ## download what a GPU machine without network lacks (PYTHON_VERSION=3.12)
	$(GPU_DOWNLOAD) -c constraints.txt msgspec gguf textual platformdirs mdit-py-plugins \
		linkify-it-py uc-micro-py
	$(GPU_DOWNLOAD) 'numpy<2.4'

lint: setup ## check style and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

format: setup ## apply ruff's fixes and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup model ## measure throughput on each workload against transformers
	$(BIN)/minivllm bench throughput --workload all --model $(MODEL) --dtype float32 \
		--vs transformers

bench-check: setup model ## a quick bench (quiet machine): fail if a ratio fell by 15 %
	$(BIN)/python tools/bench_check.py --model $(MODEL)

bench-update: setup model ## measure what bench-check compares with, and write it
	$(BIN)/python tools/bench_check.py --model $(MODEL) --update

clean: ## remove caches, the built site and build outputs; keep .venv and the models
	rm -rf $(CACHES) build dist site *.egg-info
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

# Where no C compiler works, Zig's comes with pip: 101 MB to download, 411 MB on disk.
COMPILER = $(shell for name in "$$CC" gcc cc clang; do \
	$$name --version >/dev/null 2>&1 && exit; done; echo ,compiler)

# The stamp files are inside the environment, so removing it removes them. `make demo` needs only
# the first.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
		echo "minivllm needs Python 3.11, 3.12 or 3.13 and $(PYTHON) is `$(PYTHON) -V`; name another" \
		"one, for example: make PYTHON=python3.12" >&2; exit 1; }
	@echo "$(STEP_1)Installing minivllm and what it needs into $(VENV), once: 1.9 GB (0.7 of it" \
		"Triton), often 3 to 5 minutes, in which pip says nothing."
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e '.[lessons,serve$(COMPILER)]'
	@touch $@

$(DEV_INSTALLED): $(INSTALLED)
	@echo "Installing the tools for tests, benches and the site into $(VENV), once: minutes, in" \
		"which pip says nothing."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
