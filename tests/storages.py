"""What an installation's storage says, read without Dagster and without the project."""

import json
from pathlib import Path
from typing import Any


def read_reference(storage: Path, key: str) -> dict[str, Any]:
    """The reference of asset ``key``, with the paths of this storage."""
    text = (storage / "references" / f"{key}.json").read_text(encoding="utf-8")
    return json.loads(text.replace("$STORAGE", str(storage)))
