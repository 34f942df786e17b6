"""Entries of Reasoning Gym's tasks: problems that a generator writes and a scorer grades. The package is an extra."""

import difflib
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib import import_module, metadata
from io import StringIO
from typing import Any

from core.errors import InputError, first_line

PACKAGE = "reasoning-gym"
GYM = "gym:"  # what the name of a source or generator begins with; the name of a task follows
ENTRY = "entry"  # the field of a row that holds its entry


def task_of(name: str) -> str | None:
    """Return the task that the path of a source, or the generator of a benchmark, names; None if it names none."""
    return name.removeprefix(GYM) if name.startswith(GYM) else None


def package_version() -> str:
    """Return the version of Reasoning Gym; InputError if it is not installed."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        raise InputError(
            f"{PACKAGE} is not installed in this interpreter: pip install {PACKAGE}==0.1.25, in both environments"
        ) from None


def read_entries(task: str, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of a task as JSON values, each with question, answer and metadata.

    Args:
        task: its name.
        options: ``size``, ``seed``, and what the task takes.

    Raises:
        InputError: there is no such task, or it does not take an option or its value.
    """
    package_version()
    gym: Any = import_module("reasoning_gym")
    tasks = import_module("reasoning_gym.factory").DATASETS
    if task not in tasks:
        near = difflib.get_close_matches(task, tasks, 1)
        raise InputError(
            f"{GYM}{task}: no task of this name in {PACKAGE}{f'; did you mean {GYM}{near[0]}?' if near else ''}"
        )
    try:
        with redirect_stdout(StringIO()):  # some tasks print
            entries = list(gym.create_dataset(task, **options))
    except (AssertionError, TypeError, ValueError) as error:
        raise InputError(f"{GYM}{task}: options {dict(options)}: {first_line(error)}; see its configuration") from None
    return json.loads(json.dumps(entries, default=_plain))


def _plain(value: Any) -> Any:
    """Convert numpy's numbers and arrays, and sets, to JSON values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return sorted(value) if isinstance(value, set) else str(value)
