"""Build Dagster's definitions from settings, in explicit lists, under names that leave room for others."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets.benchmarks import benchmarks_suite
from assets.browser import browser
from assets.checks import target_checks
from assets.difficulty import check_one_source_of_rates, difficulty
from assets.evals.checkpoint_scores import checkpoints
from assets.evals.scores import score_assets
from assets.generated import KEY as GENERATED
from assets.generated import generated_asset
from assets.ledger import ledger
from assets.models import base
from assets.registry.champion import champion
from assets.registry.retention import retention
from assets.report import scorecard_asset
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.launchpad import io_manager, luffy_resource
from assets.shared.live_metrics import METRICS_SPEC
from assets.shared.luffy import IO_MANAGER, Names
from assets.shared.ray_cluster import on_cluster
from assets.source import SOURCE, check_upstream_assets, source, upstream_assets
from assets.targets import DIFFICULTY, PREPARED, REJECTED, prepared, train
from assets.training import policy
from pipelines.definitions.catalog import describe
from pipelines.definitions.jobs import build_jobs
from pipelines.definitions.schedules import build_schedules
from pipelines.definitions.sensors import build_sensors
from pipelines.settings import Settings

Asset = dg.AssetsDefinition | dg.AssetSpec


def build_defs(
    settings: Settings,
    names: Names | None = None,
    *,
    executor: dg.ExecutorDefinition | None = None,
    ray: Any = None,
) -> dg.Definitions:
    """Build the definitions of ``settings`` under ``names``.

    Args:
        settings: Settings of the installation.
        names: Prefixes of keys, groups, jobs, sensors and schedules. None: there are none.
        executor: The executor of all jobs. None: the one of the definitions that these are merged into.
        ray: A resource of dagster-ray or dagster-slurm: the cluster of each step that needs GPUs. None:
            ``settings.interpreter`` names the cluster.
    """
    names = names or Names()
    assets, deps = _assets(settings)
    computed = [asset for asset in assets if isinstance(asset, dg.AssetsDefinition)]
    keys = [key for asset in computed if asset.is_materializable for key in asset.keys]
    check_upstream_assets(names, upstream_assets(settings.targets), [SOURCE, *keys])
    jobs = build_jobs(names, keys)
    interpreter = settings.interpreter.model_dump()
    return dg.Definitions(
        assets=_renamed([_after(describe(asset, settings.catalog, names, deps), deps) for asset in assets], names),
        asset_checks=target_checks(settings.checks.file, names),
        jobs=list(jobs.values()),
        schedules=build_schedules(names, jobs, settings.schedule),
        sensors=build_sensors(names, jobs, settings),
        resources={
            "luffy": luffy_resource(names, settings),
            "luffy_interpreter": TrainingInterpreter(**interpreter) if ray is None else on_cluster(ray, interpreter),
            IO_MANAGER: io_manager,
        },
        executor=executor,
    )


def _assets(settings: Settings) -> tuple[list[Asset], Mapping[dg.AssetKey, Sequence[dg.AssetKey]]]:
    """Return all assets, and what some of them depend on because of the settings.

    A teacher's traces and pass rates are among them if the settings have their sections.
    """
    suite, upstream = settings.suite.entries(), upstream_assets(settings.targets)
    assets: list[Asset] = [source, prepared, train, browser, base, policy, METRICS_SPEC, ledger, benchmarks_suite]
    assets += [*score_assets(suite), checkpoints, scorecard_asset(suite), champion, retention]
    traces, rates = list(upstream), []
    if settings.generate:
        assets.append(generated_asset(settings.generate))
        traces.append(GENERATED)
    if settings.difficulty:
        check_one_source_of_rates(settings.targets)
        assets.append(difficulty)
        rates.append(DIFFICULTY)
    made = {PREPARED: [*traces, *rates], REJECTED: [*traces, *rates], DIFFICULTY: traces}
    return assets, {SOURCE: upstream, **made}


def _after(asset: Asset, deps: Mapping[dg.AssetKey, Sequence[dg.AssetKey]]) -> Asset:
    """Let the step of ``asset`` wait for its part of ``deps``: Dagster orders steps by inputs, not by specs alone."""
    if isinstance(asset, dg.AssetSpec) or not asset.is_materializable:
        return asset
    inputs = {"_".join(key.path): key for own in asset.keys for key in deps.get(own, ())}
    if not inputs:
        return asset
    ins = {one.name: dg.In.from_definition(one) for one in asset.op.input_defs}
    op = asset.op.with_replaced_properties(name=asset.op.name, ins={**ins, **dict.fromkeys(inputs, dg.In(dg.Nothing))})
    read = {**asset.keys_by_input_name, **inputs}
    attributes = {**asset.get_attributes_dict(), "node_def": op, "keys_by_input_name": read}
    return dg.AssetsDefinition.dagster_internal_init(**attributes)


def _renamed(assets: Sequence[Asset], names: Names) -> list[Asset]:
    """Return the assets with the prefix of ``names`` before our keys, and other projects' as they are."""
    if names == Names():
        return [*assets]
    ours = {key for asset in assets for key in ([asset.key] if isinstance(asset, dg.AssetSpec) else asset.keys)}
    keys = {key: names.key(key) for key in ours}
    return [
        asset.replace_attributes(key=names.key(asset.key), deps=[names.key(dep.asset_key) for dep in asset.deps])
        if isinstance(asset, dg.AssetSpec)
        else _with_op(asset.with_attributes(asset_key_replacements=keys), names.name(asset.op.name))
        for asset in assets
    ]


def _with_op(asset: dg.AssetsDefinition, name: str) -> dg.AssetsDefinition:
    """Return ``asset`` with an op of another name: an asset of theirs with our key, such as models/base."""
    op = asset.op.with_replaced_properties(name=name)
    return dg.AssetsDefinition.dagster_internal_init(**{**asset.get_attributes_dict(), "node_def": op})
