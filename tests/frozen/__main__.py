"""Make the frozen results and compare them with the recorded ones (tests/golden/frozen) or with those of a commit.

Each group is a function of the modules next to this one, which returns name -> value, made from an empty storage. A
name that begins with ``local/`` holds on one machine only: it is compared with another commit's value, never recorded.
"""

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from core import PROJECT
from core.kinds import GRADED, POLICY, PREPARED, Kind

GOLDEN = PROJECT / "tests/golden/frozen"
NUMBERS = GOLDEN / "numbers.json"  # the number of each kind of result, with a digest of the values that belong to it
DATA, TRAINING = (".venv", "data_groups.py"), (".venv-train", "training_groups.py")
GROUPS = {"preparation": DATA, "configurations": TRAINING, "decisions": DATA, "steps": TRAINING, "scores": DATA}
GROUPS |= {"verdicts": DATA, "trainings": TRAINING}
# In the line of a difference: a name that came or went, and the wording of a reason.
NO_RESULT = ("'(absent)'", "/reason: ", "/rejected/columns/detail: ")
APART = "trainings"  # not in `make frozen`, for its time
KINDS = {PREPARED: ("preparation", "verdicts"), GRADED: ("verdicts", "scores"), POLICY: ("steps", "verdicts")}
# Relative, of fractional numbers; other values are equal. The logarithms of decisions differ between processors.
TOLERANCES = {"decisions": 1e-12, "scores": 1e-9, "steps": 1e-5, "trainings": 1e-5}


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The single values below ``value``: those of ``[7, 8]`` with the name ``a`` are 7, ``a/0``, and 8, ``a/1``."""
    if value and isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(child, f"{name}/{key}")
    else:
        yield name, value


def differences(group: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """One line with name, old and new value for each single value that is not the same."""
    before, after = dict(leaves(old, group)), dict(leaves(new, group))
    for name in before | after:
        a, b = before.get(name, "(absent)"), after.get(name, "(absent)")
        near = isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=TOLERANCES.get(group, 0.0))
        if not near and repr(a) != repr(b):
            yield f"{name}: {a!r} -> {b!r}"


def digest(kind: Kind) -> str:
    files = [file for group in KINDS[kind] if (file := GOLDEN / f"{group}.json").exists()]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def recorded(group: str) -> dict[str, Any]:
    file = GOLDEN / f"{group}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def record(group: str, values: dict[str, Any], changed: list[str]) -> None:
    """Write the values of a group, one name per line; end if one changed under a number that the last commit has."""
    command = ["git", "show", "HEAD:./numbers.json"]
    committed = json.loads(subprocess.run(command, cwd=GOLDEN, capture_output=True, text=True).stdout or "{}")
    for kind in (kind for kind in KINDS if group in KINDS[kind]):
        if changed and str(kind.number) in committed.get(kind.name, {}):
            names = "\n".join(changed[:5])
            sys.exit(f"error: frozen: raise the number of {kind.name} in core/kinds.py, because these change:\n{names}")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(values.items()))
    (GOLDEN / f"{group}.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    for kind in KINDS:
        numbers.setdefault(kind.name, {})[str(kind.number)] = digest(kind)
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


def check_out(commit: str, root: Path) -> None:
    """Make ``root`` the tree of ``commit``, with the environments of this one."""
    subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", PROJECT, root], check=True)
    subprocess.run(["git", "-C", root, "checkout", "--quiet", commit], check=True)
    for environment in (".venv", ".venv-train"):
        (root / environment).symlink_to((PROJECT / environment).resolve())


def make(group: str, root: Path) -> dict[str, Any]:
    """The values of ``group`` by the code in ``root``: by its own module, or by this tree's where it has none."""
    begin = time.monotonic()
    environment, module = GROUPS[group]
    program = next(file for tree in (root, PROJECT) if (file := tree / "tests/frozen" / module).is_file())
    with TemporaryDirectory(prefix="frozen-") as folder:
        out = Path(folder, "values.json")
        command = [PROJECT / environment / "bin/python", program, group, out]
        variables = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        if status := subprocess.run(command, cwd=root, env=variables).returncode:
            sys.exit(f"error: frozen: {group} ended with status {status}; its messages are above")
        values = json.loads(out.read_text(encoding="utf-8"))
    print(f"frozen: {group}: {len(values)} values in {time.monotonic() - begin:.0f} s", flush=True)
    return values


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description="Compare results with frozen ones.")
    parser.add_argument("--only", metavar="GROUP", nargs="+", choices=GROUPS, help=", ".join(GROUPS))
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--record", metavar="GROUP", nargs="+", choices=GROUPS, help="write the recorded values anew")
    other.add_argument("--base", metavar="COMMIT", help="compare with the values of this commit's code")
    options = parser.parse_args()
    groups = options.record or options.only or [group for group in GROUPS if group != APART]
    failed = 0
    with TemporaryDirectory(prefix="frozen-") as folder, ThreadPoolExecutor(2) as pool:  # the long ones first
        base = Path(folder, "tree")
        if options.base:
            check_out(options.base, base)
        made = pool.map(make, groups, repeat(PROJECT))
        others = pool.map(make, groups, repeat(base)) if options.base else map(recorded, groups)
        for group, values, old in zip(groups, made, others, strict=True):
            new = values if options.base else {name: of for name, of in values.items() if not name.startswith("local/")}
            lines = list(differences(group, old, new))
            if options.record:
                record(group, new, [line for line in lines if not any(part in line for part in NO_RESULT)])
            else:
                failed += len(lines)
                sys.stdout.writelines(f"{line}\n" for line in lines)
    print(f"frozen: {failed} differences in {', '.join(groups)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
