"""The code location: all of Dagster's definitions, in explicit lists."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.benchmarks import benchmarks_suite, description_of
from assets.browser import browser
from assets.checkpoints import CheckpointOptions, checkpoints
from assets.checks import check_specs, targets_account, targets_checks
from assets.difficulty import check_one_source_of_rates, difficulty, difficulty_inputs
from assets.evals import build_evals
from assets.experiments import build_experiments
from assets.generated import generated, pool_of
from assets.models import base
from assets.registry import champion
from assets.report import scorecard, scorecard_inputs
from assets.retention import retention
from assets.targets import prepared, prepared_inputs, source, train
from assets.training import POLICY, metrics_spec, policy
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
    suite = settings.benchmark_suite()
    last = CheckpointOptions(**settings.evaluation.model_dump(), benchmark=suite[0].name)
    assets = [
        *_target_assets(settings),
        base.build(settings.model),
        policy.build(
            settings.training,
            key=POLICY,
            group_name=POLICY.path[0],
            automation_condition=retrain_on_new_targets(),
        ),
        metrics_spec(POLICY),
        benchmarks_suite.build(settings.benchmarks, description=description_of(suite)),
        *build_evals(suite, settings.evaluation),
        checkpoints.build(last),
        scorecard.build(settings.report, ins=scorecard_inputs(suite)),
        champion.build(settings.promotion),
        *build_experiments(suite, settings.experiments, settings.training, settings.evaluation),
        retention.build(settings.retention),
    ]
    checks = settings.check_suite()
    return dg.Definitions(
        assets=describe(assets, settings.catalog),
        asset_checks=[targets_checks.build(specs=check_specs(checks)), targets_account],
        jobs=JOBS,
        schedules=build_schedules(settings.schedule),
        sensors=build_sensors(settings),
        resources={**build_resources(settings), **(resource_overrides or {})},
        executor=forked_steps,
    )


def _target_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """Build the target assets; a teacher's traces and pass rates are among them if the profile has their sections."""
    teacher, rates = settings.generate, settings.difficulty
    assets = [
        source,
        prepared.build(settings.targets, ins=prepared_inputs(generated=bool(teacher), measured=bool(rates))),
        train.build(settings.split),
        browser,
    ]
    if teacher:
        assets.append(generated.build(teacher, pool=pool_of(teacher)))
    if rates:
        check_one_source_of_rates(settings.targets)
        assets.append(difficulty.build(rates, ins=difficulty_inputs(generated=bool(teacher))))
    return assets


defs = build_defs()
