"""Read and check the JSON files that a report takes besides tables."""

from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import read_json, read_object
from evaluation.report.scorecard.lineage_summary import Lineage

TEXTS = (
    ("checkpoint_digest",),
    ("base_model", "digest"),
    ("base_model", "source"),
    ("targets", "digest"),
    ("targets", "path"),
    ("request", "recipe"),
)
OBJECTS = ("base_model", "targets", "request", "config")  # parts of a lineage.json that hold keys of their own


def read_lineage(path: Path) -> dict[str, Any]:
    """Return the content of a ``lineage.json``, as far as a report reads it."""
    manifest = read_object(path)
    for key in OBJECTS:
        if not isinstance(manifest.get(key, {}), dict):
            raise InputError(f"{path}: {key}: expected an object; give the lineage.json of a policy")
    for *parents, key in TEXTS:
        part = manifest.get(parents[0], {}) if parents else manifest
        if not isinstance(part.get(key, ""), str):
            raise InputError(f"{path}: {'.'.join([*parents, key])}: expected a text; give the lineage.json of a policy")
    try:
        Lineage.from_manifest(manifest).composition()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}; give the lineage.json of a policy") from error
    return manifest


def read_filter_counts(path: Path) -> list[tuple[str, int]]:
    """Return how many rows each preparation step left."""
    filter_counts = read_json(path)
    for entry in filter_counts if isinstance(filter_counts, list) else [None]:
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], int)):
            raise InputError(f"{path}: expected [[step, rows], …], got {entry!r:.80}")
    return [(str(step), rows) for step, rows in filter_counts]
