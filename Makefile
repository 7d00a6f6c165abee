# Every target does all of its own set-up: a virtual environment in .venv, torch, the package with its extras.
PYTHON ?= python3
JOBS ?= 2
PYTEST_ARGS ?=
FUZZ_ARGS ?=
KERNELS ?= traced

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
SUPPORTED := torch>=2.11,<2.15
CPU_BUILD := torch==2.13.0+cpu
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test lint fuzz kernels properties bench bench-gpu setup format clean

demo: $(STAMP)
	$(BIN)/python -m janusc demo

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict janusc
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_architecture.py

# Generated programs against eager, by the thousand; says how to go on when it is stopped.
fuzz: $(STAMP)
	cd tests && JANUSC_VERIFY=each ../$(BIN)/python -m generated.fuzz --jobs $(JOBS) $(FUZZ_ARGS)

# The whole corpus on kernels, as it is and with its checks failing. KERNELS=inductor has torch's compiler make them, which
# takes hours.
kernels: $(STAMP)
	JANUSC_KERNELS=$(KERNELS) $(BIN)/python -m pytest -n $(JOBS) --timeout=3600 -o faulthandler_timeout=3700 -k kernels tests/test_abort.py tests/runtime/kernels/test_programs.py $(PYTEST_ARGS)

# The property tests with many more examples each.
properties: $(STAMP)
	JANUSC_FUZZ=1 $(BIN)/python -m pytest -n $(JOBS) -m hypothesis --timeout=3600 -o faulthandler_timeout=3700 $(PYTEST_ARGS)

bench: $(STAMP)
	$(BIN)/python bench/overhead.py
	$(BIN)/python bench/dynamic.py
	$(BIN)/python bench/step.py
	$(BIN)/python bench/misses.py
	$(BIN)/python bench/optimizers.py

# On a CUDA device alone, in less than six minutes.
bench-gpu: $(STAMP)
	$(BIN)/python bench/gpu.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist janusc.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

setup: $(STAMP)

# A torch that fits and is installed already (a GPU build, say) is kept. The CPU build is taken wherever the user's pip
# finds one, since the plain build brings gigabytes of GPU libraries on Linux.
$(STAMP): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	    || { echo "janusc needs Python 3.10 or newer; $(PYTHON) is none. Try: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo "$(PYTHON) can't make virtual environments. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(PIP) --version >/dev/null 2>&1 || { echo "set-up: making $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "set-up: looking for torch; this may take minutes"
	@if PIP_FIND_LINKS= PIP_CONFIG_FILE=/dev/null $(PIP) install --no-index --no-deps '$(SUPPORTED)' >/dev/null 2>&1; then \
	    echo "set-up: keeping the torch that is installed"; \
	elif $(PIP) install --quiet --constraint constraints.txt '$(CPU_BUILD)' 2>/dev/null; then \
	    echo "set-up: took the CPU build, $(CPU_BUILD)"; \
	else \
	    echo "set-up: no CPU build of torch on offer; taking the plain build, $(SUPPORTED)"; \
	    $(PIP) install --constraint constraints.txt '$(SUPPORTED)'; \
	fi
	@echo "set-up: installing janusc with its extras"
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[test,demo,bench]'
	@touch $@
