"""targets/source: the raw traces, which are observed and never materialized here."""

import warnings
from collections.abc import Collection
from typing import Any

import dagster as dg

from assets.shared.failures import user_errors
from assets.shared.luffy import Luffy, Names
from assets.shared.metadata import rows_table
from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.text.patterns import compile_full_match
from targets.settings import TargetSettings

SOURCE = dg.AssetKey(["targets", "source"])
UPSTREAM = "asset:"  # a source with this prefix is an asset of another project: asset:raw/traces
KEY = compile_full_match(r"[\w.-]+(/[\w.-]+)*")
LOCATIONS = ("dagster/uri", "path")  # metadata of it that name its file; Dagster's own IO managers write `path`

SOURCE_SPEC = dg.AssetSpec(
    SOURCE,
    group_name="targets",
    kinds={"dataset"},
    description="The raw traces. They come from the embedded generator, from your files, from a dataset of the Hugging "
    "Face hub, or from an asset of another project. Each observation records their digest and the number of rows.",
)


def observable(**attributes: Any) -> Any:
    """Return Dagster's decorator for assets that are only observed."""
    with warnings.catch_warnings():  # it is beta in Dagster 1.13, whose exact minor version is pinned
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.multi_observable_source_asset(**attributes)


@observable(name="targets__source", specs=[SOURCE_SPEC])
def source(context: dg.AssetExecutionContext, luffy: dg.ResourceParam[Luffy]) -> dg.ObserveResult:
    with user_errors(context):
        options = with_upstream_files(context.instance, luffy.settings.targets)
        digest, metadata = observation(options)
        rows = metadata.get("dagster/row_count", "an unknown number of")
        context.log.info(f"{', '.join(options.paths)}: {rows} rows, digest {digest[:SHORT_DIGEST]}")
        return dg.ObserveResult(luffy.names.key(SOURCE), data_version=dg.DataVersion(digest), metadata=metadata)


def upstream_assets(options: TargetSettings) -> list[dg.AssetKey]:
    """Return the sources that are assets of another project; InputError for a text that is no key."""
    paths = [path for path in options.paths if path.startswith(UPSTREAM)]
    for path in paths:
        if not KEY(path.removeprefix(UPSTREAM)):
            raise InputError(f"targets.source: {path!r}: expected the key of an asset, as in {UPSTREAM}raw/traces")
    return [dg.AssetKey.from_user_string(path.removeprefix(UPSTREAM)) for path in paths]


def check_upstream_assets(names: Names, upstream: Collection[dg.AssetKey], ours: Collection[dg.AssetKey]) -> None:
    """Raise InputError if one of ``upstream`` has a key of ``ours``, with or without our prefix."""
    for key in upstream:
        if key in ours or key in map(names.key, ours):
            raise InputError(
                f"targets.source: {UPSTREAM}{key.to_user_string()}: this is the key of an asset of this project; name "
                "an asset of yours, with another key"
            )


def with_upstream_files(instance: dg.DagsterInstance, options: TargetSettings) -> TargetSettings:
    """Replace each asset of another project in ``options`` by the file of its last materialization.

    Raises:
        InputError: There is no materialization, it is one of many partitions, or it names no file.
    """
    located = [
        source.model_copy(update={"path": _upstream_file(instance, source.path)})
        if source.path.startswith(UPSTREAM)
        else entry
        for entry, source in zip(options.source, options.sources, strict=True)
    ]
    return options.model_copy(update={"source": located})


def _upstream_file(instance: dg.DagsterInstance, path: str) -> str:
    """Return the file of the last materialization of the asset that ``path`` names, by its metadata."""
    event = instance.get_latest_materialization_event(dg.AssetKey.from_user_string(path.removeprefix(UPSTREAM)))
    materialization = event and event.asset_materialization
    if not materialization:
        raise InputError(f"targets.source: {path}: this asset was never materialized; materialize it first")
    if materialization.partition is not None:
        raise InputError(f"targets.source: {path}: expected an asset without partitions, which names all of its rows")
    for name in LOCATIONS:
        if name in materialization.metadata:
            return str(materialization.metadata[name].value)
    raise InputError(
        f"targets.source: {path}: its last materialization does not name its file; add the metadata "
        f"{LOCATIONS[0]!r} or {LOCATIONS[1]!r} to it"
    )


def observation(options: TargetSettings) -> tuple[str, dict[str, Any]]:
    """Return the present digest of the source, and its metadata for the UI."""
    from targets.read.sources import observe

    observed = observe(options)
    parts = ((name, "" if rows is None else rows, digest[:SHORT_DIGEST]) for name, digest, rows in observed.shards)
    rows = {} if observed.rows is None else {"dagster/row_count": observed.rows}
    return observed.digest, {
        "source": ", ".join(options.paths),
        "parts": rows_table(("part", "rows", "digest"), parts, left=(0, 2)),
        **rows,
    }
