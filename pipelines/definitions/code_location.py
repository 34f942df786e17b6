"""The code location: everything Dagster knows, in explicit lists."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.benchmarks import build_benchmarks
from assets.browser import build_browser
from assets.checkpoints import build_checkpoints
from assets.checks import build_checks, check_keys
from assets.difficulty import build_difficulty
from assets.evals import build_evals
from assets.experiments import build_experiments
from assets.generated import build_generated
from assets.models import build_models
from assets.registry import build_registry
from assets.report import build_report
from assets.retention import build_retention
from assets.targets import build_targets
from assets.training import build_training
from core.cli import private_files
from pipelines.definitions.automation import retrain_on_new_targets
from pipelines.definitions.catalog import describe
from pipelines.definitions.executor import forked_steps
from pipelines.definitions.jobs import JOBS
from pipelines.definitions.resources import build_resources
from pipelines.definitions.schedules import build_schedules
from pipelines.definitions.sensors import build_sensors
from pipelines.definitions.settings import Settings, load_settings


def build_defs(
    *, settings: Settings | None = None, resource_overrides: Mapping[str, Any] | None = None
) -> dg.Definitions:
    """The definitions of ``settings`` (by default those of the environment), with resources replaced for tests."""
    settings = settings or load_settings()
    suite, checks = settings.benchmark_suite(), check_keys(settings.check_suite())
    assets = [
        *build_generated(settings.generate),
        *build_targets(
            settings.targets,
            settings.split,
            generated=settings.generate is not None,
            measured=settings.difficulty is not None,
        ),
        *build_difficulty(settings.difficulty, settings.targets, generated=settings.generate is not None),
        build_browser(),
        *build_models(settings.model),
        *build_training(settings.training, retrain_on_new_targets(), checks),
        *build_benchmarks(suite, settings.benchmarks),
        *build_evals(suite, settings.evaluation),
        *build_checkpoints(suite, settings.evaluation),
        *build_report(suite, settings.report),
        *build_registry(suite, settings.promotion),
        *build_experiments(suite, settings.experiments, settings.training, settings.evaluation, checks),
        *build_retention(settings.retention),
    ]
    return dg.Definitions(
        assets=describe(assets, settings.catalog),
        asset_checks=build_checks(settings.check_suite()),
        jobs=JOBS,
        schedules=build_schedules(settings.schedule),
        sensors=build_sensors(settings),
        resources={**build_resources(settings), **(resource_overrides or {})},
        executor=forked_steps,
    )


private_files()  # Dagster imports this module in code servers, runs and steps, before they write anything
defs = build_defs()
