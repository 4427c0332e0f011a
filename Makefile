# Needs Python 3.11 or later (with its venv module) and make; everything else comes from the locks into .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-input --progress-bar off
QUIETLY := @$(PYTHON) tools/quietly.py
LOCK := $(BIN)/uv pip compile --quiet --no-config --generate-hashes --no-emit-index-url --no-annotate --universal \
	--python-version 3.11 --custom-compile-command "make lock" --group build --no-emit-package tenure-client
FAULTS_SECONDS ?= 600
# Most of the time of the end-to-end tests goes by in waiting: twice as many as there are cores keep them busy.
TEST_PROCESSES ?= $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')
CLIENT := clients/tenure-client
# The second takes from numba's cache what the first has compiled beside it.
COMPILE_LIVE := $(BIN)/python -c "from app.processes.warming import warm_up; warm_up()"
COMPILE_ALL := $(BIN)/python -c "from app.processes.warming import warm_up_worker; warm_up_worker()"

# Otherwise each start of a process compiles all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run cluster federation openstack test test-parts test-long test-longest test-again check compiled faults faults-short hostile hostile-short two-builds lint format lock clean assets screenshots
.DEFAULT_GOAL := run

help:  ## this list
	@sed -n 's/^\([a-z][a-z-]*\):.*  ## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name text; do printf '%-14s %s\n' "$$name" "$$text"; done

run: .venv/run.stamp  ## API and worker together, with a private PostgreSQL unless TENURE_DATABASE_URL names one
	@exec $(BIN)/tenure run

cluster: .venv/run.stamp  ## a Slurm cluster on this machine to play with, its nodes bought at a Tenure of its own; root
	@exec tools/try-cluster

federation: .venv/dev.stamp  ## two clouds on this machine that run jobs for each other, with a walk-through; FEDERATIONFLAGS=--once ends after it
	@tools/objects-install --check >/dev/null || tools/objects-install || true
	@exec $(BIN)/python tools/try-federation $(FEDERATIONFLAGS)

openstack: .venv/dev.stamp  ## a whole OpenStack on this machine that sells spot servers, with a walk-through; OPENSTACKFLAGS=--once ends after it; root
	@tools/openstack-install && exec $(BIN)/python tools/try-openstack $(OPENSTACKFLAGS)

test: compiled  ## everything that must hold on any machine; TESTFLAGS
	$(BIN)/python -m pytest -m "not real_parts and not long" --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(TESTFLAGS)

test-parts: compiled  ## the tests with real parts: Slurm, CRIU, Keystone, Nova, Swift; what is not installed is skipped
	$(BIN)/python -m pytest -m real_parts --numprocesses 3 --dist loadfile tests/e2e tests/openstack tests/objects $(TESTFLAGS)

test-long: compiled  ## random histories against the oracles, five times as many as in make test
	TENURE_TEST_LONG=1 $(BIN)/python -m pytest --numprocesses auto --quiet $(shell grep --files-with-matches 'from repeats import' tests/unit/*.py) $(TESTFLAGS)

test-longest: compiled  ## what make test leaves out: tests of processes that take long, and those with Chromium and Prometheus
	$(BIN)/python -m pytest -m long --numprocesses auto --dist loadfile --quiet tests/e2e tests/integration $(TESTFLAGS)

test-again: compiled  ## of the tests, those that failed the last time, one after another
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(TESTFLAGS)

faults: .venv/dev.stamp  ## ten minutes under faults (docs/faults.md); FAULTS_SECONDS, FAULTS_SEED, FAULTSFLAGS
	cd tests && exec ../$(BIN)/python -m faults --seconds $(FAULTS_SECONDS) $(addprefix --seed ,$(FAULTS_SEED)) $(FAULTSFLAGS)

faults-short: .venv/dev.stamp  ## a minute under faults with a fixed seed, and the proof that a defect would be found
	$(BIN)/python -m pytest tests/faults/under_faults.py $(TESTFLAGS)

hostile: .venv/dev.stamp  ## attackers beside an honest caller (docs/hostile.md); HOSTILEFLAGS="--seconds 5 bad_tokens"
	cd tests && exec ../$(BIN)/python -m hostile $(HOSTILEFLAGS)

hostile-short: .venv/dev.stamp  ## each of these attacks for a few seconds, as tests
	$(BIN)/python -m pytest tests/hostile/under_attack.py $(TESTFLAGS)

two-builds: .venv/dev.stamp  ## an older commit (OLDER_BUILD) beside this tree on one database, through a whole upgrade
	$(BIN)/python -m pytest tests/e2e/two_builds.py -s $(TESTFLAGS)

check: lint compiled  ## whether a change is sound, in under two minutes: formatting, rules, types, and the tests of units
	$(BIN)/python -m pytest tests/unit --numprocesses auto --dist loadfile --quiet $(TESTFLAGS)

# Otherwise each process of the tests compiles it for itself at its first use.
compiled: .venv/dev.stamp  ## the engine, for this machine
	$(QUIETLY) "compiling the engine" sh -c '$(COMPILE_LIVE) & $(COMPILE_ALL) && wait'

lint: .venv/dev.stamp  ## formatting, rules and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/dev.stamp  ## the sources formatted, and mended where a rule can do it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: .venv/dev.stamp  ## the newest versions that pyproject.toml allows; LOCKFLAGS=--upgrade to leave the present ones
	$(LOCK) $(LOCKFLAGS) pyproject.toml --output-file requirements.lock
	$(LOCK) $(LOCKFLAGS) --group dev --constraint requirements.lock pyproject.toml --output-file requirements-dev.lock
	for name in openstack nova-31 nova-33 objects; do $(filter-out --group build --no-emit-package tenure-client,$(LOCK)) $(LOCKFLAGS) tools/$$name.in --output-file tools/$$name.lock || exit; done

clean:  ## everything that make made; not the data in .tenure
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist tenure.egg-info $(CLIENT)/build $(CLIENT)/tenure_client.egg-info
	find app clients migrations tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/pip.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tenure needs Python 3.11 or later: make PYTHON=...")'
	$(QUIETLY) "making .venv" $(PYTHON) -m venv .venv
	@touch $@

.venv/run.stamp: requirements.lock pyproject.toml $(CLIENT)/pyproject.toml | .venv/pip.stamp
	$(QUIETLY) "installing into .venv" $(PIP) --require-hashes --requirement requirements.lock
	$(QUIETLY) "installing tenure" $(PIP) --no-deps --no-build-isolation --editable $(CLIENT) --editable .
	@touch $@

.venv/dev.stamp: requirements-dev.lock .venv/run.stamp
	$(QUIETLY) "installing what tests need into .venv" $(PIP) --require-hashes --requirement requirements-dev.lock
	@touch $@

assets:  ## the pages' script libraries, as pinned in package-lock.json; needs npm, and only to change their versions
	npm ci --ignore-scripts --no-audit --no-fund
	cp node_modules/idiomorph/dist/idiomorph.min.js app/platform/pages/static/vendor/idiomorph.js
	cp node_modules/uplot/dist/uPlot.iife.min.js app/platform/pages/static/vendor/uplot.js
	cp node_modules/uplot/dist/uPlot.min.css app/platform/pages/static/vendor/uplot.css
	cat node_modules/idiomorph/LICENSE > app/platform/pages/static/vendor/LICENSES.txt
	printf '\n----\nuPlot\n\n' >> app/platform/pages/static/vendor/LICENSES.txt
	cat node_modules/uplot/LICENSE >> app/platform/pages/static/vendor/LICENSES.txt
	cd app/platform/pages/static/vendor && sha256sum idiomorph.js uplot.js uplot.css LICENSES.txt > SHA256SUMS

screenshots: .venv/dev.stamp  ## docs/screenshots anew, of a cloud that is driven for it; needs Chromium
	$(BIN)/python -m benchmarks.screenshots
