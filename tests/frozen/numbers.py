"""The number of each kind of result, with a digest of the frozen values that belong to it (tests/golden/frozen)."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from core.kinds import GRADED, POLICY, PREPARED, Kind

GOLDEN = Path(__file__).resolve().parents[1] / "golden/frozen"
NUMBERS = GOLDEN / "numbers.json"
GROUPS = {PREPARED: ("preparation", "verdicts"), GRADED: ("verdicts", "scores"), POLICY: ("steps", "verdicts")}


def digest(kind: Kind) -> str:
    files = [file for group in GROUPS[kind] if (file := GOLDEN / f"{group}.json").exists()]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def require_raised(group: str, changed: list[str]) -> None:
    """End with a message if values of ``group`` change under a number that the last commit has."""
    command = ["git", "show", "HEAD:./numbers.json"]
    committed = json.loads(subprocess.run(command, cwd=GOLDEN, capture_output=True, text=True).stdout or "{}")
    for kind in (kind for kind in GROUPS if group in GROUPS[kind]):
        if changed and str(kind.number) in committed.get(kind.name, {}):
            names = "\n".join(changed[:5])
            sys.exit(f"error: frozen: raise the number of {kind.name} in core/kinds.py, because these change:\n{names}")


def write() -> None:
    """Note the digest of each kind under its number."""
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() else {}
    for kind in GROUPS:
        numbers.setdefault(kind.name, {})[str(kind.number)] = digest(kind)
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
