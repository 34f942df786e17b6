# Set-up, tests and documentation: make help lists the targets. Everyday use: luffy --help lists the commands.
SHELL := /bin/bash
# The Python of .venv if there is one, else the first that is here.
PYTHON ?= $(or $(shell sed -n 's/^executable = //p' .venv/pyvenv.cfg 2>/dev/null),$(firstword \
  $(foreach python,python3.11 python3.12,$(shell $(python) -c 'print("$(python)")' 2>/dev/null))),python3.11)
# pyenv's command for a version that is not switched on says where that version is, and does not run.
ifeq ($(shell $(PYTHON) -c 'print(1)' 2>/dev/null),)
override PYTHON := $(or $(shell pyenv whence --path $(PYTHON) 2>/dev/null | tail -n 1),$(PYTHON))
endif
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
PORT ?= 3000
ORCHESTRATION := .venv/bin/python
TRAINING := .venv-train/bin/python
PIP_INSTALL := -m pip install -qq --disable-pip-version-check --no-deps
UV := $(shell command -v uv 2>/dev/null)
# Install the lock $(2) in environment $(1): by uv if it is there and finds every package, else by pip.
install_lock = $(if $(UV),$(UV) pip install --quiet --python $(1)/bin/python --no-deps --require-hashes -r $(2) || ) \
  $(1)/bin/python $(PIP_INSTALL) --require-hashes -r $(2)
# An environment is up to date if it has the stamp of its Python and its lock; pulling another lock asks for another one.
digest = $(VERSION).$(shell cat $(1) 2>/dev/null | sha256sum | cut -c1-12)
ORCHESTRATION_STAMP := .venv/installed.$(call digest,requirements/orchestration.lock)
GPU_LOCK_STAMP := .venv-gpu-lock/installed.$(call digest,requirements/train-gpu.lock)
AUDIT_STAMP := .venv-audit/installed.$(call digest,requirements/audit.lock)
DOCS_STAMP := .venv-docs/installed.$(call digest,requirements/docs.lock)
INTEROP_STAMP := .venv-interop/installed.$(call digest,requirements/interop.lock)
export PYTHONPATH := $(CURDIR)
export HF_HUB_DISABLE_TELEMETRY := 1

.DEFAULT_GOAL := help
.PHONY: help setup training-environment demo gym languages ui test test-all mutants test-deps test-unit bench docs lint lock audit pin-images clean test-gpu-lock rehearse test-interop \
  frozen frozen-trainings unit-orchestration unit-training others-orchestration others-training

help:  ## list the targets (luffy --help lists the commands)
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Build environment $(1) from lock $(2); $(3) says what it is.
define build
@echo "setup: $(1) ($(3))"
@$(if $(filter 3.11 3.12,$(VERSION)),,$(error PYTHON=$(PYTHON): expected Python 3.11 or 3.12, got $(or $(VERSION),a command that does not run)))rm -f $(1)/installed*
@$(PYTHON) -m venv $$([ -d $(1)/lib/python$(VERSION) ] || echo --clear) $(1)
@$(call install_lock,$(1),requirements/$(2).lock)
endef
install_in_both = @for python in $(ORCHESTRATION) $(TRAINING); do $$python $(subst --no-deps,,$(PIP_INSTALL)) $(1); done
# HARDWARE=gpu takes the GPU lock; TRAIN_PYTHON=/path/to/python builds on top of a Python that has torch, verl and vLLM, and
# FORCE=1 tries versions of it that are not supported. Without them, .venv-train stays what it is.
setup: training-environment  ## build both environments (PYTHON=, HARDWARE=gpu, TRAIN_PYTHON=)

$(ORCHESTRATION_STAMP):
	$(call build,.venv,orchestration,orchestration)
	@.venv/bin/python $(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@

training-environment: $(ORCHESTRATION_STAMP)
	@$(ORCHESTRATION) -m pipelines.cli.luffy setup $(HARDWARE:%=--hardware=%) $(TRAIN_PYTHON:%=--on=%) $(if $(FORCE),--force)

$(AUDIT_STAMP):
	$(call build,.venv-audit,audit,the search of the locks for known vulnerabilities)
	@touch $@

$(DOCS_STAMP):
	$(call build,.venv-docs,docs,the documentation as a site)
	@touch $@

$(GPU_LOCK_STAMP):
	$(call build,.venv-gpu-lock,train-gpu,the GPU lock for tests without a GPU; 11 GB)
	@touch $@

$(INTEROP_STAMP):
	$(call build,.venv-interop,interop,Inspect and lm-evaluation-harness and MLflow for tests; 1.5 GB)
	@touch $@

demo: setup  ## run the whole graph on the embedded task: targets, training, evals, scorecard
	@$(ORCHESTRATION) -m pipelines.cli.luffy demo

ui: $(ORCHESTRATION_STAMP)  ## serve the Dagster UI on PORT (default 3000)
	@$(ORCHESTRATION) -m pipelines.cli.luffy ui --port $(PORT)

# A part that fails does not keep the others from running: make's status tells of it at the end.
PARTS := $(MAKE) --no-print-directory --keep-going
AT_ONCE := --jobs=2 --output-sync=target
SELECT :=
QUICK := -m "not slow"
# Workers share the files, the long ones of integration first. In the orchestration environment three fill two cores:
# each waits now and then for a process, a port or a browser. Trainings compute on all cores, and two are enough.
WORKERS = -n $(1) --dist loadfile --no-loadscope-reorder $(QUICK)
LEVELS := tests/integration tests/defs tests/ui tests/components tests/messages
# Every run of pytest adds its counts to this file; the last line of the tests sums them up.
COUNTED = export LUFFY_TEST_COUNTS=$$(mktemp);
SUMMARY = $(ORCHESTRATION) tests/summary.py $$LUFFY_TEST_COUNTS; rm -f $$LUFFY_TEST_COUNTS
TEST_PACKAGES := bubblewrap chromium openssh-server postgresql slurm-wlm strace

test: setup  ## unit, definition, UI and integration tests, in both environments
	@echo "the unit tests of both environments, then the others of each"
	+@$(COUNTED) $(PARTS) $(AT_ONCE) unit-orchestration unit-training SELECT='$(QUICK)'; status=$$?; \
	  $(PARTS) others-orchestration SELECT='$(call WORKERS,3)' || status=$$?; \
	  $(PARTS) others-training SELECT='$(call WORKERS,2)' || status=$$?; \
	  $(SUMMARY); exit $$status

test-all: setup  ## the same with the slow ones: every recipe, resumes, killed processes, a browser that trains
	+@$(COUNTED) $(PARTS) unit-orchestration unit-training others-orchestration others-training; status=$$?; \
	  $(SUMMARY); exit $$status

test-deps:  ## install what some tests need: bubblewrap, Chromium, OpenSSH, strace, PostgreSQL and Slurm (Debian, Ubuntu; as root)
	@command -v apt-get >/dev/null || { echo "error: no apt-get: install $(TEST_PACKAGES) by your package manager" >&2; exit 2; }
	@dpkg-query --show $(TEST_PACKAGES) >/dev/null 2>&1 || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends $(TEST_PACKAGES) >/dev/null; }

gym: setup  ## install Reasoning Gym into both environments, for the verifier and the profile gym
	$(call install_in_both,reasoning-gym==0.1.25)

languages: setup  ## install py3langid into both environments, for the setting targets.languages
	$(call install_in_both,py3langid==0.4.0)

test-interop: $(INTEROP_STAMP)  ## exported evaluations and tracked runs in the real Inspect, lm-evaluation-harness and MLflow
	@.venv-interop/bin/python -m pytest tests/interop -q

mutants: setup  ## plant each fault of tests/mutants, one at a time, and say which test notices it (MUTANTS="NAME ...")
	@$(ORCHESTRATION) tests/mutants/run.py $(MUTANTS)

test-unit: setup  ## the unit tests alone, those of both environments at once
	+@$(PARTS) $(AT_ONCE) unit-orchestration unit-training

unit-orchestration:
	@$(ORCHESTRATION) -m pytest tests/unit tests/research examples -q $(SELECT)
# On one thread, because tensors are small there and both environments run at once.
unit-training:
	@OMP_NUM_THREADS=1 $(TRAINING) -m pytest tests/unit tests/research/test_base_model.py examples/method -q $(SELECT)
others-orchestration:
	@$(ORCHESTRATION) -m pytest $(LEVELS) -q $(SELECT)
others-training:
	@$(TRAINING) -m pytest $(LEVELS) tests/gpu tests/gpu_lock -q $(SELECT)

test-gpu-lock: $(GPU_LOCK_STAMP)  ## the packages of the GPU lock with our code, on a machine without a GPU (11 GB, minutes)
	@.venv-gpu-lock/bin/python -m pytest tests/gpu_lock tests/integration/test_training_profiles.py \
	  tests/integration/test_training_layouts.py -q
	@.venv-gpu-lock/bin/python -m pytest tests/integration/test_training_zoo.py -q -m "not slow"

rehearse:  ## import what you pack for a GPU machine without a network (WHEELS=FOLDER, PYTHON=: one that has its torch)
	@rm -rf var/rehearsal && $(PYTHON) -m venv --system-site-packages var/rehearsal
	@var/rehearsal/bin/python $(PIP_INSTALL) --no-index $(WHEELS)/*.whl
	@var/rehearsal/bin/python -m pip check
	@var/rehearsal/bin/python -m pytest tests/gpu_lock -q -k import

frozen: setup  ## make results and compare them with the recorded ones (BASE=COMMIT: with those of a commit)
	@$(ORCHESTRATION) -m tests.frozen $(if $(BASE),--base $(BASE))

frozen-trainings: setup  ## the same for trainings of three steps
	@$(ORCHESTRATION) -m tests.frozen --only trainings $(if $(BASE),--base $(BASE))

lint: setup  ## check style, types, the layers of the packages, and the declared packages
	@.venv/bin/ruff check . && .venv/bin/ruff format --check .
	@.venv/bin/basedpyright && .venv/bin/basedpyright --project pyrightconfig.training.json  # the code that needs torch
	@.venv/bin/lint-imports --no-logo --no-cache
	@.venv/bin/deptry . 2>&1 | grep -v '^Assuming'; exit $${PIPESTATUS[0]}

docs: setup $(DOCS_STAMP)  ## build the documentation as a site that opens without a network; a broken link fails
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build
	@echo "docs: open var/docs/index.html"

bench: setup  ## measure the speed that the documentation quotes (TRACES=FILE.parquet: your own traces, too)
	@$(ORCHESTRATION) -m research bench $(if $(TRACES),--traces $(TRACES))

lock:  ## compile requirements/*.lock from pyproject.toml (needs uv; finds local wheels through PIP_FIND_LINKS)
	UV_FIND_LINKS=$$PIP_FIND_LINKS requirements/compile.sh

audit: $(AUDIT_STAMP)  ## look up every package of the locks in a database of vulnerabilities (asks api.osv.dev)
	@requirements/audit.sh

pin-images:  ## pin the public images of deploy/ to digests (needs docker and the registry)
	@deploy/pin-images.sh

clean:  ## remove what runs have written (var/), not the environments
	rm -rf var
