"""Make the frozen results and compare them with the recorded ones, or with those of another commit.

Each group is a module next to this one: its ``values()`` returns name -> value, made from an empty storage by the code
of a tree. A name that begins with ``local/`` holds on one machine only: it is compared with another commit's values,
and never recorded.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.frozen import numbers

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
GOLDEN = PROJECT / "tests/golden/frozen"
ORCHESTRATION, TRAINING = ".venv", ".venv-train"
GROUPS = dict.fromkeys(["preparation", "verdicts", "scores", "decisions"], ORCHESTRATION)
GROUPS |= dict.fromkeys(["steps", "configurations", "trainings"], TRAINING)
APART = "trainings"  # not in `make frozen`, for its time
# Relative, of fractional numbers; other values are equal. The logarithms of decisions differ between processors.
TOLERANCES = {"decisions": 1e-12, "scores": 1e-9, "steps": 1e-5, "trainings": 1e-5}
CHILD = """import json, runpy, sys
from pathlib import Path
sys.path.append(str(Path(sys.argv[1]).parent))  # last, so that no file there hides a module of Python
json.dump(runpy.run_path(sys.argv[1])["values"](), open(sys.argv[2], "w"))"""


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


def check_out(commit: str, root: Path) -> None:
    """Make ``root`` the tree of ``commit``, with the environments of this one."""
    subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", PROJECT, root], check=True)
    subprocess.run(["git", "-C", root, "checkout", "--quiet", commit], check=True)
    for environment in (ORCHESTRATION, TRAINING):
        (root / environment).symlink_to((PROJECT / environment).resolve())


def make(group: str, root: Path) -> dict[str, Any]:
    """The values of ``group`` by the code in ``root``: by its own module, or by this tree's where it has none."""
    program = next(file for folder in (root / "tests/frozen", HERE) if (file := folder / f"{group}.py").is_file())
    begin = time.monotonic()
    with TemporaryDirectory(prefix="frozen-") as folder:
        out = Path(folder, "values.json")
        command = [PROJECT / GROUPS[group] / "bin/python", "-c", CHILD, program, out]
        variables = {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        if status := subprocess.run(command, cwd=root, env=os.environ | variables).returncode:
            sys.exit(f"error: frozen: {program} ended with status {status}; its messages are above")
        values = json.loads(out.read_text(encoding="utf-8"))
    print(f"frozen: {group}: {len(values)} values in {time.monotonic() - begin:.0f} s", flush=True)
    return values


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description="Compare results with frozen ones.")
    parser.add_argument("--only", metavar="GROUP", nargs="+", choices=GROUPS, help=", ".join(GROUPS))
    parser.add_argument("--record", metavar="GROUP", nargs="+", choices=GROUPS, help="write the recorded values anew")
    parser.add_argument("--base", metavar="COMMIT", help="compare with (or record) the values of this commit's code")
    options = parser.parse_args()
    groups = options.record or options.only or [group for group in GROUPS if group != APART]
    failed = 0
    with TemporaryDirectory(prefix="frozen-") as folder:
        base = Path(folder, "tree") if options.base else PROJECT
        if options.base:
            check_out(options.base, base)
        for group in groups:
            file = GOLDEN / f"{group}.json"
            values = make(group, base if options.record else PROJECT)
            portable = {name: value for name, value in sorted(values.items()) if not name.startswith("local/")}
            if options.record:  # one name a line, so that a difference of two versions can be read
                recorded = json.loads(file.read_text("utf-8")) if file.exists() else portable
                changed = [line for line in differences(group, recorded, portable) if ": '(absent)' -> " not in line]
                numbers.require_raised(group, changed)
                lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in portable.items())
                file.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
                numbers.write()
                continue
            old, new = (make(group, base), values) if options.base else (json.loads(file.read_text("utf-8")), portable)
            for line in differences(group, old, new):
                failed += 1
                print(line)
    print(f"frozen: {failed} differences in {', '.join(groups)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
