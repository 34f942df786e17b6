# All targets: make help
SHELL := /bin/bash
PYTHON ?= python3.11
HARDWARE ?= cpu
PORT ?= 3000
ORCHESTRATION := .venv/bin/python
TRAINING := .venv-train/bin/python
# Where PyPI's torch is a CUDA build, the CPU build comes from PyTorch's own index.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
PIP_INSTALL := -m pip install -qq --disable-pip-version-check --no-deps
export DAGSTER_HOME := $(CURDIR)/var/dagster
export PYTHONPATH := $(CURDIR)
export HF_HUB_DISABLE_TELEMETRY := 1

.DEFAULT_GOAL := help
.PHONY: help demo run ui promote rollback experiments leaderboard test test-all test-unit bench lint lock setup clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/installed .venv-train/installed  ## build both environments (HARDWARE=gpu for the GPU lock)

.venv/installed: requirements/orchestration.lock
	@echo "setup: .venv (orchestration)"
	@$(PYTHON) -m venv .venv
	@$(ORCHESTRATION) $(PIP_INSTALL) -r $<
	@touch $@

.venv-train/installed: requirements/train-$(HARDWARE).lock
	@echo "setup: .venv-train (training, $(HARDWARE))"
	@$(PYTHON) -m venv .venv-train
	@torch=$$(grep -E '^torch==.*\+cpu' $<); \
	if [ -n "$$torch" ]; then \
	  $(TRAINING) $(PIP_INSTALL) "$$torch" 2>/dev/null || $(TRAINING) $(PIP_INSTALL) --index-url $(TORCH_CPU_INDEX) "$$torch"; \
	fi
	@$(TRAINING) $(PIP_INSTALL) -r $<
	@touch $@

demo: setup  ## run the whole graph on the embedded task: targets, training, evals, scorecard
	@$(ORCHESTRATION) -m pipelines.cli.run

run: setup  ## the same graph on your files: PROFILE=name-or-path, LUFFY__SECTION__KEY=value
	@LUFFY_PROFILE=$(PROFILE) $(ORCHESTRATION) -m pipelines.cli.run

ui: .venv/installed  ## serve the Dagster UI on PORT (default 3000)
	@$(ORCHESTRATION) -m pipelines.cli.ui --port $(PORT)

.PHONY: promote rollback experiments compare
promote: .venv/installed  ## make a policy the champion by hand: TO=digest or run folder, REASON=text
	@$(ORCHESTRATION) -m pipelines.cli.registry promote "$(TO)" --reason "$(REASON)"

rollback: .venv/installed  ## make the champion before the present one the champion again: REASON=text
	@$(ORCHESTRATION) -m pipelines.cli.registry rollback --reason "$(REASON)"

experiments: setup  ## train and score recipes and compare them on one page: RECIPES="luffy on_policy" (default: all)
	@$(ORCHESTRATION) -m pipelines.cli.experiments $(RECIPES)

compare: setup  ## the paper's comparison on the embedded task, three seeds a recipe; writes docs/comparison
	@$(ORCHESTRATION) -m pipelines.cli.experiments --profile comparison --copy-to docs/comparison

test: test-unit  ## unit, definition, UI and integration tests, in both environments
	@$(ORCHESTRATION) -m pytest tests --ignore tests/unit -q -m "not slow"
	@$(TRAINING) -m pytest tests --ignore tests/unit -q -m "not slow"

test-all: test-unit  ## the same with the slow ones: every recipe, resumes, killed processes, a browser that trains
	@$(ORCHESTRATION) -m pytest tests --ignore tests/unit -q
	@$(TRAINING) -m pytest tests --ignore tests/unit -q

test-unit: setup  ## the unit tests alone, those of both environments at once
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target unit-orchestration unit-training

.PHONY: unit-orchestration unit-training
unit-orchestration:  ## the unit tests of the orchestration environment
	@$(ORCHESTRATION) -m pytest tests/unit -q
unit-training:  ## the unit tests of the training environment
	@$(TRAINING) -m pytest tests/unit -q

lint: .venv/installed  ## check style, types, the layers of the rooms, and the declared packages
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/basedpyright
	@.venv/bin/lint-imports --no-logo --no-cache
	@.venv/bin/deptry . 2>&1 | grep -v '^Assuming'; exit $${PIPESTATUS[0]}

bench: setup  ## measure the figures that the README quotes
	@$(TRAINING) -m perf.algorithms
	@$(ORCHESTRATION) -m perf.targets
	@$(ORCHESTRATION) -m perf.operations
	@$(ORCHESTRATION) -m perf.load
	@$(TRAINING) -m perf.steps
	@$(TRAINING) -m perf.evaluation

leaderboard: setup  ## rank every checkpoint that was evaluated (MODELS="A B": evaluate these first)
	@if [ -n "$(MODELS)" ]; then $(TRAINING) -m evaluation compare $(MODELS) --out var/storage/graded; fi
	@$(TRAINING) -m evaluation leaderboard --results var/storage/graded

lock:  ## compile requirements/*.lock from pyproject.toml (needs uv; finds local wheels through PIP_FIND_LINKS)
	UV_FIND_LINKS=$$PIP_FIND_LINKS requirements/compile.sh

clean:  ## remove what runs have written (var/), not the environments
	rm -rf var
