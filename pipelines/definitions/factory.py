"""Build Dagster's definitions from settings, in explicit lists, under names that others can stand beside."""

from typing import Any

import dagster as dg

from assets.benchmarks import benchmarks_suite, description_of
from assets.browser import browser
from assets.checks import check_specs, targets_account, targets_checks
from assets.difficulty import check_one_source_of_rates, difficulty, difficulty_inputs
from assets.evals.checkpoint_scores import checkpoints
from assets.evals.scores import build_evals
from assets.generated import generated, pool_of
from assets.ledger import ledger
from assets.models import base
from assets.registry.champion import champion
from assets.registry.retention import retention
from assets.report import scorecard, scorecard_inputs
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.launchpad import io_manager, luffy_resource, storage_resource
from assets.shared.live_metrics import metrics_spec
from assets.shared.profile import IO_MANAGER, Names
from assets.shared.ray_cluster import on_cluster
from assets.source import SOURCE, SOURCE_SPEC, check_upstream_assets, source, upstream_assets
from assets.targets import DIFFICULTY, PREPARED, prepared, prepared_inputs, train
from assets.training import policy
from pipelines.definitions.automation import retrain_on_new_targets
from pipelines.definitions.catalog import describe
from pipelines.definitions.jobs import build_jobs
from pipelines.definitions.schedules import build_schedules
from pipelines.definitions.sensors import build_sensors
from pipelines.settings import Settings


def build_defs(
    settings: Settings, names: Names, *, executor: dg.ExecutorDefinition | None = None, ray: Any = None
) -> dg.Definitions:
    """Build the definitions of ``settings`` under ``names``.

    Args:
        settings: Settings of the installation.
        names: Prefixes of keys, groups, jobs, sensors, schedules and resources.
        executor: The executor of all jobs. None: the one of the definitions that these are merged into.
        ray: A resource of dagster-ray or dagster-slurm: the cluster of each step that needs GPUs. None:
            ``settings.interpreter`` names the cluster.
    """
    suite = settings.suite.entries()
    assets = [
        *_target_assets(names, settings),
        base.build(names),
        policy.build(
            names,
            automation_condition=retrain_on_new_targets(),
        ),
        metrics_spec(names),
        ledger.build(names),
        benchmarks_suite.build(names, description=description_of(suite)),
        *build_evals(names, suite),
        checkpoints.build(names),
        scorecard.build(names, ins=scorecard_inputs(suite)),
        champion.build(names),
        retention.build(names),
    ]
    computed = [asset for asset in assets if isinstance(asset, dg.AssetsDefinition)]
    keys = [names.plain(key) for asset in computed if asset.is_materializable for key in asset.keys]
    check_upstream_assets(names, upstream_assets(settings.targets), keys)
    jobs = build_jobs(names, keys)
    checks = check_specs(settings.checks.file)
    return dg.Definitions(
        assets=describe(assets, settings.catalog, names),
        asset_checks=[targets_checks.build(names, specs=checks), targets_account.build(names)],
        jobs=list(jobs.values()),
        schedules=build_schedules(names, jobs, settings.schedule),
        sensors=build_sensors(names, jobs, settings),
        resources=_resources(settings, names, ray),
        executor=executor,
    )


def _target_assets(names: Names, settings: Settings) -> list[dg.AssetsDefinition]:
    """Build the target assets; a teacher's traces and pass rates are among them if the profile has their sections."""
    teacher, rates = settings.generate, settings.difficulty
    upstream = upstream_assets(settings.targets)
    check_upstream_assets(names, upstream, (SOURCE, PREPARED, DIFFICULTY))  # which cannot even be built
    sources = [SOURCE, *upstream]
    inputs = prepared_inputs(generated=bool(teacher), measured=bool(rates))
    assets = [
        source.build(names, upstream=upstream, specs=[SOURCE_SPEC.replace_attributes(deps=upstream)]),
        prepared.build(names, upstream, ins=inputs, deps=sources),
        train.build(names),
        browser.build(names),
    ]
    if teacher:
        assets.append(generated.build(names, pool=pool_of(teacher)))
    if rates:
        check_one_source_of_rates(settings.targets)
        ins = difficulty_inputs(generated=bool(teacher))
        assets.append(difficulty.build(names, upstream, ins=ins, deps=sources))
    return assets


def _resources(settings: Settings, names: Names, ray: Any) -> dict[str, Any]:
    """Build the settings of a run, the storage, the references between assets, and the training interpreter."""
    interpreter = settings.interpreter.model_dump()
    return {
        names.luffy: luffy_resource(names, settings),
        names.name("storage"): storage_resource(names),
        names.name(IO_MANAGER): io_manager(names),
        names.name("interpreter"): TrainingInterpreter(**interpreter) if ray is None else on_cluster(ray, interpreter),
    }
