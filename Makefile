# Every target sets up what it needs by itself: a fresh clone, Python 3.11+ and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPARK_READY := $(VENV)/.spark

.DEFAULT_GOAL := help
.PHONY: help demo test fresh interop faults soak scale migration lint format servers docs bench clean browser screenshots spark pipeline-proof pipeline-demo

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: chasqui needs Python 3.11 or newer (try: make PYTHON=python3.12 …)" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "hint: on Debian and Ubuntu, install python3-venv first" >&2; rm -rf $(VENV); exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY) ## A tour: jobs that succeed, retry, die and repeat on a private server; then an archive, and a page about it.
	$(BIN)/chasqui demo
	@test -e $(SPARK_READY) || echo "next, what Spark makes of it: setting it up takes a minute or two and fetches about 600 MB, once"
	@if $(MAKE) --no-print-directory $(SPARK_READY); then $(MAKE) --no-print-directory pipeline-demo; \
	else echo "Spark could not be set up (see above), so the tour ends here; \`make pipeline-demo\` tries the rest again" >&2; fi

pipeline-demo: $(SPARK_READY) ## Its second half alone: a small archive, and a page with charts.
	@rm -rf $(VENV)/tour
	$(BIN)/chasqui pipeline demo $(VENV)/tour

test: $(READY) servers ## Run every test, on every kind of server this machine can have.
	$(BIN)/python -m pytest -n 3 --dist loadgroup --ignore tests/interop --ignore tests/faults --ignore tests/scale --ignore tests/spark
	$(BIN)/python -m pytest -n 2 tests/faults -m 'not slow'

fresh: ## Run `make demo` and `make test` on bare Debian 12 and 13, as an ordinary user. Needs root and debootstrap.
	$(PYTHON) -m tests.support.fresh_machine

interop: $(READY) servers ## Queues shared with the released chasquimq 1.3.0 and with the real RSMQ clients, in every direction.
	$(BIN)/python -m pytest tests/interop

$(SPARK_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark]'
	@touch $@

spark: $(SPARK_READY) servers ## The data pipeline on a real Spark: data source, archive, reports, bulk loads.
	$(BIN)/python -m pytest tests/spark

pipeline-proof: $(SPARK_READY) servers ## The pipeline at full size: kills, trims, millions of jobs, rates side by side.
	@missed=; for proof in archive growth produce rates reports warm cluster; do \
		echo "== pipeline_$$proof"; $(BIN)/python -m benchmarks.pipeline_$$proof || missed="$$missed $$proof"; \
	done; test -z "$$missed" || { echo "error: claims did not hold:$$missed" >&2; exit 1; }

faults: $(READY) servers ## Inject every fault, the slow ones too, and print what held and how fast it healed.
	$(BIN)/python -m pytest -n 2 tests/faults

soak: $(READY) servers ## 200,000 jobs, workers killed all the time, every id accounted for.
	$(BIN)/python -m benchmarks.soak

scale: $(READY) servers ## 100,000 dead letters and a million keys: grouped, replayed, killed midway, undone, found; what it costs.
	$(BIN)/python -m pytest tests/scale -s

migration: $(READY) servers ## Move 12,000 RSMQ messages and list jobs, in use, with the mover (engine, command line) killed all the time.
	CHASQUI_MIGRATION_MESSAGES=12000 $(BIN)/python -m pytest tests/foreign/test_migration_live.py -s

lint: $(READY) ## Check style, types, and that imports point downwards.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## Let ruff mend what it can.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

servers: $(READY) ## Obtain the test servers: Redis 8.6, Redis 7.0, Valkey 9.1. Cached outside the repository.
	$(BIN)/python -m tests.support.servers.server

browser: ## Obtain a Chromium for the tests in a browser, from Debian's packages.
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] || as=sudo; $$as apt-get update -qq && $$as apt-get install --yes --no-install-recommends chromium; }

screenshots: $(READY) ## Renew the pictures of the dashboard: docs/top/, made by the app itself on fixed data.
	$(BIN)/python -m tests.tui.screenshots

docs: $(READY) ## Renew what is generated: completions/, docs/cli.md, docs/lua.md.
	$(BIN)/python -m chasqui_cli.generate

bench: $(READY) servers ## Measure, as ratios: beside the released engine and a raw loop; start-up; codecs.
	$(BIN)/python -m benchmarks.table
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python benchmarks/codec.py

clean: ## Remove the virtual environment and every cache.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
