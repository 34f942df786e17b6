"""The resources that hold the settings of a run: the code location's, with what the Launchpad changes.

A run in the Launchpad changes settings with ``resources: {luffy: {config: {set: [targets.max_repeats=10]}}}``, in the
dialect of the command line, or with one of `TYPED`, which are the ones that people type there.
"""

import json
import os
from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.failures import as_failure
from assets.shared.luffy import Luffy, Names
from assets.shared.settings import StageSettings
from assets.shared.storage import ReferenceIOManager, Storage
from core import PROJECT
from core.errors import InputError
from core.machine.processes import die_with_parent
from core.settings import FILE, RUNS, Layer, resolve, set_layers, write_run

# Tags of a run, which the UI hides for how they begin: that a terminal executes it, which has written its settings
# itself, and the process that executes it.
COMMAND, OWNER = ".dagster/luffy_command", ".dagster/luffy_process"
# Sections that decide which definitions exist, or that only these read.
FIXED = ("suite", "checks", "interpreter", "catalog", "schedule", "notify")
TYPED: dict[str, tuple[Any, str, str]] = {
    "recipe": (str, "training.recipe", "The recipe of the training."),
    "steps": (int, "training.config.trainer.total_training_steps", "The steps of the training."),
    "seed": (int, "training.seed", "The seed of the training."),
    "source": ([str], "targets.source", "Where the traces are."),
    "model": (str, "model.source", "The model that the training starts from."),
    "force": (bool, "storage.force", "Make the selected results again, even if they are there."),
    "dry_run": (bool, "retention.dry_run", "Only list what operations/retention would remove."),
}
SCHEMA = {
    "set": dg.Field([str], default_value=[], description="Settings of this run, each SECTION.KEY=VALUE."),
    "benchmark": dg.Field(
        str, is_required=False, description="The benchmark of training/checkpoints. Default: the first of the suite."
    ),
    **{name: dg.Field(kind, is_required=False, description=text) for name, (kind, _, text) in TYPED.items()},
}


def luffy_resource(names: Names, base: StageSettings) -> dg.ResourceDefinition:
    """Build the resource ``luffy``; a `dg.ConfigurableResource` would have to hold ``base`` as configuration."""
    suite = base.suite.entries()

    @dg.resource(config_schema=SCHEMA, description="The settings of a run, which `set` changes.")
    def luffy(context: dg.InitResourceContext) -> Luffy:
        given = dict(context.resource_config)
        benchmark = given.pop("benchmark", suite[0].name)
        typed = [f"{TYPED[name][1]}={json.dumps(value)}" for name, value in given.items() if name in TYPED]
        try:
            settings = changed(base, [*given["set"], *typed])
            if context.run is not None and COMMAND not in context.run.tags:
                write_settings(settings, context.run.run_id)
        except InputError as error:
            raise as_failure(error) from None
        if context.run is not None and f" {os.getppid()}," in context.run.tags.get(OWNER, ""):
            die_with_parent(os.getppid())  # this is a process of one step
        storage = Storage.model_construct(**dict(settings.storage))  # these were checked
        return Luffy(names, settings, suite, base.checks.file, benchmark, storage)

    return luffy


def write_settings(settings: StageSettings, run: str) -> Path:
    """Write the settings of a run into the storage, unless they are there, for the processes that belong to it."""
    storage = Storage.model_construct(root=settings.storage.root)
    file = storage.path / RUNS / run / FILE
    if not file.exists():
        with storage.writable():
            write_run(settings, file)
    return file


def changed(base: StageSettings, sets: list[str]) -> StageSettings:
    """Return the settings with the Launchpad's changes; InputError for one that a run cannot change."""
    layers = [*set_layers(sets, type(base), PROJECT)]
    absent = [name for name in ("generate", "difficulty") if getattr(base, name) is None]
    if fixed := next((layer for layer in layers if next(iter(layer.values)) in (*FIXED, *absent)), None):
        raise InputError(
            f"{fixed.name}: it decides what the code location defines: change it in the profile, and reload the "
            "code location"
        )
    present = Layer("profile", base.model_dump(mode="json"))
    return resolve(type(base), [present, *layers]) if layers else base


@dg.io_manager(required_resource_keys={"luffy"}, description="References between assets.")
def io_manager(context: dg.InitResourceContext) -> ReferenceIOManager:
    """Build the IO manager of our assets."""
    luffy = context.resources.luffy
    return ReferenceIOManager(luffy.storage, luffy.names.key_prefix)
