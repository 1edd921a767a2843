# Every target makes .venv and installs what it needs when missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
START ?= 0
COUNT ?= 20000
PYTEST := $(BIN)/python -m pytest
# What runs once more in verification mode at each `make test`: the tests that compile most. (`make verify`: all of them.
# A test that can't be compared is marked not_verified, with the reason: it runs in the first pass alone. Left out for time
# are long lists of calls, whose tests compare eager and compiled code themselves.)
LISTS := changing_numbers deciding_numbers identity_changes inference keys_exact numbers_exact python_unusual python_unusual_more special_methods size_arithmetic suspended texts_of_values views_of_temporaries
VERIFIED := $(LISTS:%=--ignore=tests/capture/test_%.py) -m 'not slow and not not_verified' \
	tests/capture tests/verification tests/living tests/control tests/autograd/test_func_transforms.py \
	tests/autograd/test_func_checkpoint.py

.PHONY: demo test verify check bench fuzz slow clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/fusegrad demo

test: $(STAMP)
	$(PYTEST) -n 2 --dist loadfile tests
	FUSEGRAD_VERIFY=1 $(PYTEST) -n 2 --dist load $(VERIFIED)

# the whole suite with eager code run beside all compiled code: docs/verification.md
verify: $(STAMP)
	FUSEGRAD_VERIFY=1 $(PYTEST) -n 2 --dist loadfile tests

check: $(STAMP)
	$(BIN)/ruff check src compiler export tests benchmarks docs
	$(BIN)/ruff format --check src compiler export tests benchmarks docs
	$(BIN)/python tests/typecheck.py
	$(PYTEST) tests/test_layers.py tests/test_smoke.py

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

fuzz: $(STAMP)
	$(BIN)/python tests/fuzz/fuzz.py --start $(START) --count $(COUNT)

slow: $(STAMP)
	$(PYTEST) -m slow tests

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
