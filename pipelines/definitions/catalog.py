"""Metadata for the catalogue in the UI: owners, schedule, freshness and links to the code of every asset.

What only one asset knows (its description, kinds, columns) is in the module of the asset.
"""

import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import dagster as dg

from assets.shared.luffy import Names
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
RUNS = "luffy/runs"  # tag: the schedule of an asset
OVERDUE = 4  # multiple of `fresh_days`


def describe(
    asset: dg.AssetsDefinition | dg.AssetSpec,
    settings: CatalogSettings,
    names: Names,
    deps: Mapping[dg.AssetKey, Sequence[dg.AssetKey]],
) -> dg.AssetsDefinition | dg.AssetSpec:
    """Add to ``asset`` the metadata from settings and jobs, the prefix of its group, and its part of ``deps``."""
    days = settings.fresh_days
    fresh = None if days is None else dg.FreshnessPolicy.time_window(timedelta(OVERDUE * days), timedelta(days))

    def of_group(spec: dg.AssetSpec) -> dict[str, Any]:
        group = str(spec.group_name)
        return {"group_name": names.name(group), "owners": settings.owners.get(group) or [TEAMS.get(group, OTHERS)]}

    if isinstance(asset, dg.AssetSpec):
        return asset.replace_attributes(**of_group(asset))

    def computed(spec: dg.AssetSpec) -> dg.AssetSpec:
        weekly = asset.is_materializable and not is_on_request(spec.key)
        runs = "weekly" if weekly else "on_request" if asset.is_materializable else "hourly"
        return spec.replace_attributes(
            **of_group(spec),
            deps=[*spec.deps, *deps.get(spec.key, ())],
            tags={**spec.tags, RUNS: runs},
            metadata={**spec.metadata, "dagster/code_references": _code(asset, settings)},
            freshness_policy=fresh if weekly else None,
        )

    return asset.map_asset_specs(computed)


def _code(asset: dg.AssetsDefinition, settings: CatalogSettings) -> dg.CodeReferencesMetadataValue:
    """Return the link to the function that computes ``asset``; `dg.with_source_code_references` reads every file."""
    function = cast("Any", asset.op.compute_fn).decorated_fn.__code__
    with warnings.catch_warnings():  # these are beta in Dagster 1.13, whose exact minor version is pinned
        warnings.simplefilter("ignore", dg.BetaWarning)
        if settings.code_url is None:
            link = dg.LocalFileCodeReference(file_path=function.co_filename, line_number=function.co_firstlineno)
        else:
            file = Path(function.co_filename).relative_to(PROJECT).as_posix()
            link = dg.UrlCodeReference(url=f"{settings.code_url.rstrip('/')}/{file}#L{function.co_firstlineno}")
        return dg.CodeReferencesMetadataValue(code_references=[link])
