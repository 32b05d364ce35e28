# make help shows the targets. Every target builds .venv first if it has to (scripts/bootstrap.sh).
.DEFAULT_GOAL := help
SHELL := /bin/sh

BIN := .venv/bin
HOME_OF_DEMO := $(CURDIR)/.demo/dagster_home
DEV_HOST ?= 127.0.0.1
DEV_PORT ?= 3000
SERVE_PORT ?= 8080
ARGS ?=

.PHONY: help setup demo dev serve check test test-newest hunt coverage soak lint format options docs dist bench interop interop-java fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## create .venv with the pinned packages; quick when nothing changed
	@scripts/bootstrap.sh

demo: setup ## a year of real flight changes into Paimon tables, on Spark, then a short report
	@$(BIN)/python -m jobs.demo.run $(ARGS)

dev: setup ## the Dagster UI on the demo's runs and tables (DEV_PORT=3000)
	@$(BIN)/python -m jobs.demo.home
	DAGSTER_HOME=$(HOME_OF_DEMO) $(BIN)/dagster dev -w workspace.yaml -h $(DEV_HOST) -p $(DEV_PORT)

serve: setup ## a REST catalog over the demo's tables, for this machine alone and without tokens (SERVE_PORT=8080)
	@mkdir -p $${PAIMON_WAREHOUSE:-.demo/warehouse}
	@$(BIN)/paimon-assets -w $${PAIMON_WAREHOUSE:-.demo/warehouse} serve --port $(SERVE_PORT) --insecure $(ARGS)

check: lint ## lint, and every test that needs no JVM and kills no process: the loop while you work
	@$(BIN)/python -m pytest -n auto --dist loadfile --check $(ARGS)

test: setup ## the whole test suite: unit, Spark, end to end (ARGS="-k name" passes options on)
	@$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

hunt: setup ## what draws its input or goes through histories, ten times as long and drawn anew (PAIMON_FUZZ_SEED=2 looks elsewhere)
	@$(BIN)/python -m pytest -n auto --dist loadfile -m "hunt and not interop" --hypothesis-profile=hunt $(ARGS)

coverage: setup ## branch coverage per package by the tests that need no JVM, held to tools/coverage_floors.csv (minutes)
	@$(BIN)/python -m tools.branch_coverage $(ARGS)

soak: setup ## two minutes under a Dagster daemon, then sixty days of a small deployment by the clock; figures a day (ARGS="--days 120 --rounds 0")
	@$(BIN)/python -m tools.soak $(ARGS)

test-newest: ## the suite on the newest of everything that pyproject.toml allows, in .venv-newest (.venv stays)
	@python3 -m venv --clear .venv-newest
	@.venv-newest/bin/python -m pip install --quiet -e ".[connect,dagster-pyspark,pandas,polars,duckdb,kafka,server,demo,sketches]" --group dev
	@.venv-newest/bin/python -m pip freeze --exclude-editable | grep -iE "^(pyspark|dagster|pyarrow|polars|pandas|duckdb|sqlglot)=="
	@PATH="$(CURDIR)/.venv-newest/bin:$$PATH" .venv-newest/bin/python -m pytest -n auto --dist loadfile $(ARGS)

lint: setup ## ruff, mypy strict, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## let ruff repair and format what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

options: setup ## write docs/options.md, errors.md, cli.md and the procedures of sql.md from the code
	@$(BIN)/python -m tests.house.options_page
	@$(BIN)/python -m tests.house.cli_page
	@$(BIN)/python -m tests.house.errors_page
	@$(BIN)/python -m tests.house.procedures_table

docs: setup ## build the site of docs/ into site/, its reference from the docstrings
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: setup ## build the wheel and the source archive into dist/, and check what an index would refuse
	@rm -rf dist && $(BIN)/python -m build --no-isolation --quiet && $(BIN)/twine check --strict dist/*

bench: setup ## measure against other engines and plain pyarrow; prints ratios
	@$(BIN)/python -m tools.bench $(ARGS)

interop: setup ## pypaimon reads our tables and we read its (own environment, fetched once)
	@$(BIN)/python -m tests.interop $(ARGS)

interop-java: setup ## Java Paimon and we take turns on the same tables (needs a JDK and Maven Central)
	@$(BIN)/python -m tests.interop java $(ARGS)

fuzz: setup ## random steps by Java Paimon and us in turns, everything compared (ARGS="--steps 20000 --seed 1")
	@$(BIN)/python -m tools.fuzz $(ARGS)

clean: ## remove the demo's warehouse, runs and input; .venv stays
	rm -rf .demo
