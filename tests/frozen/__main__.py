"""Make the frozen results and compare them with the recorded ones, or with those of another commit.

Each module next to this one is a group: its ``values()`` returns name -> value, made from an empty storage by the
interpreter of the group in the tree of the code. A name that begins with ``local/`` holds on one machine only: it is
compared with the values of another commit, and never recorded.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
GOLDEN = PROJECT / "tests/golden/frozen"
ORCHESTRATION, TRAINING = ".venv", ".venv-train"
GROUPS = dict.fromkeys(["preparation", "verdicts", "scores", "decisions"], ORCHESTRATION)
GROUPS |= dict.fromkeys(["steps", "configurations", "trainings"], TRAINING)
APART = "trainings"  # not in `make frozen`, for its time
TOLERANCES = {"scores": 1e-9, "steps": 1e-5, "trainings": 1e-5}  # relative, of fractional numbers; else they are equal
CHILD = "import json, runpy, sys; json.dump(runpy.run_path(sys.argv[1])['values'](), open(sys.argv[2], 'w'))"


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The single values below ``value``: those of ``[7, 8]`` with the name ``a`` are 7, ``a/0``, and 8, ``a/1``."""
    if value and isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(child, f"{name}/{key}")
    else:
        yield name, value


def differences(group: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One line with name, old and new value for each single value that is not the same."""
    before, after = dict(leaves(old, group)), dict(leaves(new, group))
    lines = []
    for name in before | after:
        a, b = before.get(name, "(absent)"), after.get(name, "(absent)")
        near = isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=TOLERANCES.get(group, 0.0))
        if not near and repr(a) != repr(b):
            lines.append(f"{name}: {a!r} -> {b!r}")
    return lines


@contextmanager
def tree(commit: str) -> Iterator[Path]:
    """A worktree of ``commit``, with this tree's environments, while the context lasts."""
    git = ["git", "-C", str(PROJECT), "worktree"]
    with TemporaryDirectory(prefix="frozen-") as folder:
        root = Path(folder, "tree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(root), commit], check=True)
        try:
            for environment in (ORCHESTRATION, TRAINING):
                (root / environment).symlink_to((PROJECT / environment).resolve())
            yield root
        finally:
            subprocess.run([*git, "remove", "--force", str(root)], check=True)


def make(group: str, root: Path = PROJECT) -> dict[str, Any]:
    """The values of ``group`` by the code in ``root``: by its own module, or by this tree's where it has none."""
    program = next(file for folder in (root / "tests/frozen", HERE) if (file := folder / f"{group}.py").is_file())
    begin = time.monotonic()
    with TemporaryDirectory(prefix="frozen-") as folder:
        out = Path(folder, "values.json")
        command = [PROJECT / GROUPS[group] / "bin/python", "-c", CHILD, program, out]
        paths = os.pathsep.join(map(str, (root, program.parent)))
        variables = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        if status := subprocess.run(command, cwd=root, env=variables).returncode:
            sys.exit(f"error: frozen: {program} ended with status {status}; its messages are above")
        values = json.loads(out.read_text(encoding="utf-8"))
    print(f"frozen: {group}: {len(values)} values in {time.monotonic() - begin:.0f} s", flush=True)
    return values


def portable(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sorted(values.items()) if not name.startswith("local/")}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description="Compare results with frozen ones.")
    parser.add_argument("--only", metavar="GROUP", nargs="+", choices=GROUPS, help=", ".join(GROUPS))
    parser.add_argument("--record", metavar="GROUP", nargs="+", choices=GROUPS, help="write the recorded values anew")
    parser.add_argument("--base", metavar="COMMIT", help="compare with (or record) the values of this commit's code")
    options = parser.parse_args()
    groups = options.record or options.only or [group for group in GROUPS if group != APART]
    groups = [group for group in groups if (HERE / f"{group}.py").is_file()]
    old = {}
    if options.base:
        with tree(options.base) as root:
            old = {group: make(group, root) for group in groups}
    if options.record:
        for group in groups:  # one name a line, so that a difference of two versions can be read
            values = portable(old[group] if old else make(group))
            lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in values.items())
            (GOLDEN / f"{group}.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        return 0
    open_faults = json.loads((GOLDEN / "to_be_changed.json").read_text(encoding="utf-8"))
    failed = 0
    for group in groups:
        new = make(group) if old else portable(make(group))
        recorded = old.get(group) or json.loads((GOLDEN / f"{group}.json").read_text(encoding="utf-8"))
        for line in differences(group, recorded, new):
            fault = next((fault for names, fault in open_faults.items() if fnmatch(line, names + ":*")), None)
            failed += fault is None
            print(line if fault is None else f"{line} (to be changed: {fault})")
    print(f"frozen: {failed} differences in {', '.join(groups)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
