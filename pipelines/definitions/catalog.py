"""Metadata for the catalogue in the UI: owners, schedule, freshness and links to the code of every asset.

What only one asset knows (its description, kinds, columns) is in the module of the asset.
"""

import inspect
import warnings
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import dagster as dg

from assets.shared.profile import Names
from core import PROJECT
from pipelines.definitions.jobs import is_on_request
from pipelines.settings import CatalogSettings

# The teams that own each group of assets, until the settings name people.
TEAMS = {
    "targets": "team:data",
    "benchmarks": "team:data",
    "registry": "team:platform",
    "operations": "team:platform",
}
OTHERS = "team:research"
RUNS, POOL = "luffy/runs", "luffy/pool"  # tags: the schedule of an asset, and the pool in which its step waits
OVERDUE = 4  # multiple of `fresh_days`


def describe(
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec], settings: CatalogSettings, names: Names
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Add the metadata from settings and jobs to ``assets``."""
    days = settings.fresh_days
    fresh = None if days is None else dg.FreshnessPolicy.time_window(timedelta(OVERDUE * days), timedelta(days))

    def attributes(spec: dg.AssetSpec) -> dict[str, Any]:
        group = names.plain(spec.key).path[0]
        return {"owners": settings.owners.get(group) or [TEAMS.get(group, OTHERS)]}

    def described(asset: dg.AssetsDefinition | dg.AssetSpec) -> dg.AssetsDefinition | dg.AssetSpec:
        if isinstance(asset, dg.AssetSpec):
            return asset.replace_attributes(**attributes(asset))
        code = {"dagster/code_references": _code(asset, settings)}
        pool = {POOL: asset.op.pool} if asset.op.pool else {}

        def computed(spec: dg.AssetSpec) -> dg.AssetSpec:
            weekly = asset.is_materializable and not is_on_request(names.plain(spec.key))
            runs = "weekly" if weekly else "on_request" if asset.is_materializable else "hourly"
            return spec.replace_attributes(
                **attributes(spec),
                tags={**spec.tags, **pool, RUNS: runs},
                metadata={**spec.metadata, **code},
                freshness_policy=fresh if weekly else None,
            )

        return asset.map_asset_specs(computed)

    return [described(asset) for asset in assets]


def _code(asset: dg.AssetsDefinition, settings: CatalogSettings) -> dg.CodeReferencesMetadataValue:
    """Return the link to the function that computes ``asset``.

    `dg.with_source_code_references` would name the decorator that reports input errors, and reads every file.
    """
    function = inspect.unwrap(cast("Any", asset.op.compute_fn).decorated_fn).__code__
    with warnings.catch_warnings():  # these are beta in Dagster 1.13, whose exact minor version is pinned
        warnings.simplefilter("ignore", dg.BetaWarning)
        if settings.code_url is None:
            link = dg.LocalFileCodeReference(file_path=function.co_filename, line_number=function.co_firstlineno)
        else:
            file = Path(function.co_filename).relative_to(PROJECT).as_posix()
            link = dg.UrlCodeReference(url=f"{settings.code_url.rstrip('/')}/{file}#L{function.co_firstlineno}")
        return dg.CodeReferencesMetadataValue(code_references=[link])
