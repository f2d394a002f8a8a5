# Two commands do everything on a machine that has Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
# Every interpreter that is named has an environment of its own: make test PYTHON=python3.12
VENV := .venv$(patsubst %,-%,$(filter-out python3,$(notdir $(PYTHON))))
PEERS := .venv-peers
WHEEL := .venv-wheel
BIN := $(VENV)/bin

# The real data sets, where they lie beside the project; without them the tests that need them skip and say so.
ifneq ($(wildcard ../shared/data),)
export BLOCKHOLE_DATA ?= $(abspath ../shared/data)
endif

# Bytecode is kept whatever the environment says: hundreds of processes would compile the same modules again.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help install demo test pytest test-all test-quick package notebooks coverage mutation fuzz kills siege lint format docs reference bench bench-serve peers screenshots clean
help:
	@echo "make demo     install, then train on the bundled family graph and ask the paper's two queries"
	@echo "make test     install, then lint, type-check and run the tests"
	@echo "make test-all the same with every combination of settings; about twenty minutes"
	@echo "make coverage all tests, and the share of branches they take"
	@echo "make mutation changes the source in a thousand places, one at a time, and says how many no test notices"
	@echo "make fuzz     damaged inputs to everything that reads, for SECONDS=600 in all"
	@echo "make kills    kills small trainings KILLS=100 times, and holds what is left against one that was not"
	@echo "make siege    a server under attack for SECONDS=60 beside 64 honest connections"
	@echo "make package  build the wheel, install it into an empty environment, and try it there"
	@echo "make install  make $(VENV) with all that running, tests and benchmarks need"
	@echo "make docs     the documentation as pages, in site/; ends at the first warning"
	@echo "make bench    benchmarks of reading, walks, answers, training and evaluation, beside the peers"

install: $(VENV)/.installed

# What the program itself needs. torch first, alone and pinned: a looser requirement can pull gigabytes of CUDA.
$(VENV)/.program: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "BlockHolE needs Python 3.11 or newer; name one with make PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# And what tests, documents and benchmarks need beyond that.
$(VENV)/.installed: $(VENV)/.program
	$(BIN)/python -m pip install --quiet --editable '.[frames,plots,tracking,faiss,postgres,gpu,serve,mcp,sparql,tune,map]' --group dev --group docs --group experiments
	touch $@

demo: $(VENV)/.program
	$(BIN)/blockhole demo

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	nice -n 5 $(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A file of tests at a time, in one worker more than there are processors; what takes long begins first.
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# Lint beside the tests, which wait now and then: mypy, a minute of a processor, gives way to them and takes what is left.
# It has no workers of its own: behind others, they begin too late for it.
test: install
	@$(MAKE) --no-print-directory -j 2 lint pytest

pytest: install
	$(PYTEST)

# Every combination of the crossed matrices, where `make test` tries every pair.
test-all:
	@BLOCKHOLE_TESTS=all $(MAKE) --no-print-directory test

# The library alone, for a second interpreter: no servers, browsers, databases or process groups.
test-quick: install
	$(PYTEST) -m "not slow" $(addprefix tests/,graph files packed data queries models runs evaluation training test_public_names.py)

# The wheel and all that it depends on in an empty environment: without extras, then with the server on a stranger's path.
package: install
	rm -rf dist $(WHEEL)
	$(BIN)/python -m build --no-isolation
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet torch==2.13.0
	$(WHEEL)/bin/python -m pip install --quiet dist/*.whl
	BLOCKHOLE_INSTALLED=$(WHEEL) $(BIN)/python -m pytest tests/packaging
	$(WHEEL)/bin/python -m pip install --quiet "$$(echo dist/*.whl)[serve]"
	BLOCKHOLE_INSTALLED=$(WHEEL) $(BIN)/python -m pytest tests/journey

# Runs the notebooks of examples/ and keeps their outputs.
notebooks: install
	$(BIN)/python scripts/run_notebooks.py

# Fails below the share that pyproject.toml asks for; what the command line runs as processes counts as well.
coverage: install
	$(BIN)/python -m pytest --cov --cov-report=term

# Minutes of every processor: scripts/mutation.md says what is changed, what tests have to notice it, and what did not.
mutation: install
	$(BIN)/python scripts/mutation.py

# Exits with 1 where an input makes anything but a sentence; what failed is kept in fuzz-failures/.
fuzz: install
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),600) --seed $(or $(SEED),0)

kills: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.training.kill_many $(or $(KILLS),100)

siege: install
	$(BIN)/python -m benchmarks.siege --seconds $(or $(SECONDS),60) --rounds $(or $(ROUNDS),1)

# -W makes a warning an error. What is generated comes first, so that the pages are those of this tree.
docs: reference
	$(BIN)/python -m sphinx -W -q -b html docs site

# The pages, tables and pictures that are made from the program, the records and the benchmarks.
reference: install
	$(BIN)/python -m scripts.reference
	$(BIN)/python -m experiments results --write
	$(BIN)/python -m scripts.figures
	$(BIN)/python -m scripts.readme
	$(BIN)/python -m benchmarks.scale_report --write

# The peers get an environment of their own, so that none of them can change ours.
peers: $(PEERS)/.installed

$(PEERS)/.installed:
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet torch==2.13.0
	$(PEERS)/bin/python -m pip install --quiet pykeen torch_geometric torch==2.13.0
	touch $@

# Every benchmark prints one JSON object and keeps it in benchmarks/results/.
bench: install peers
	$(BIN)/python -m benchmarks.bench_readers > benchmarks/results/readers.json
	$(BIN)/python -m benchmarks.bench_paths > benchmarks/results/paths.json
	$(BIN)/python -m benchmarks.bench_train --peers $(PEERS)/bin/python
	$(BIN)/python -m benchmarks.bench_evaluate --peers $(PEERS)/bin/python > benchmarks/results/evaluate.json
	$(BIN)/python -m benchmarks.bench_ask > benchmarks/results/ask.json

# Pictures of the explorer over the demo's runs, for the documents; they need chromium.
screenshots: install
	test -d runs/demo/complex || $(BIN)/blockhole demo
	$(BIN)/python -m benchmarks.screenshots runs/demo/blockhole runs/demo/complex

# Loads, overloads, kills and reloads a server over loopback; wants the machine for itself.
bench-serve: install
	$(BIN)/python -m benchmarks.bench_serve

clean:
	rm -rf .venv .venv-* build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
