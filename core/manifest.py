"""``lineage.json``, the manifest in every checkpoint: what the checkpoint was made of, and the digest of its files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import model_digest, write_json

MANIFEST = "lineage.json"


def write_manifest(checkpoint: Path, manifest: Mapping[str, Any]) -> None:
    """Write ``lineage.json`` into ``checkpoint`` with the digest of the files beside it."""
    write_json({**manifest, "checkpoint_digest": model_digest(Path(checkpoint))}, checkpoint / MANIFEST)


def read_manifest(checkpoint: Path) -> dict[str, Any]:
    """The manifest of a checkpoint, checked against the files beside it; InputError if absent or not of these files."""
    path = Path(checkpoint) / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"checkpoint {checkpoint}: no {MANIFEST} there, so nobody knows what made it") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON ({error}): restore the checkpoint or train again") from error
    if manifest.get("checkpoint_digest") != model_digest(Path(checkpoint)):
        raise InputError(f"checkpoint {checkpoint}: its files are not those that {MANIFEST} describes: train again")
    return manifest
