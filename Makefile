# Every target makes .venv and installs what it needs when missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
START ?= 0
COUNT ?= 20000
PYTEST := $(BIN)/python -m pytest
# what runs in verification mode at each `make test`. Left out: an error of a scheduler that runs at the end of a
# segment shows that line instead of its own; and programs whose results verification differentiates otherwise than
# they do (all of them at once, where some fail or have infinite slopes; by autograd.grad, which reentrant checkpoints
# refuse).
VERIFIED := tests/capture tests/verification tests/living/test_in_programs.py \
	--deselect tests/capture/test_schedulers.py::test_an_error_of_the_schedule \
	--deselect tests/capture/test_fuzz_faults.py::test_results_without_a_gradient_add_nothing \
	--deselect tests/capture/test_fuzz_faults.py::test_a_checkpoint_whose_argument_was_changed_is_refused \
	--deselect tests/capture/test_fuzz_faults.py::test_a_result_is_differentiated_though_another_keeps_a_changed_weight

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
