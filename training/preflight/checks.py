"""Named checks that report in one line: what they observed, or what is wrong and what to do."""

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from core.errors import InputError


@dataclass(frozen=True)
class Check:
    """A check; ``look`` returns what it observed, or raises an InputError that says what to do."""

    name: str
    look: Callable[[], str]


def run_checks(checks: Iterable[Check]) -> int:
    """Run all of them and print a line for each; the number that failed."""
    failed = 0
    for check in checks:
        started = time.monotonic()
        try:
            line = f"ok    {check.name}: {check.look()}"
        except InputError as error:
            line, failed = f"FAIL  {check.name}: {error}", failed + 1
        seconds = time.monotonic() - started
        sys.stdout.write(f"{line}{f' ({seconds:.0f} s)' if seconds > 1 else ''}\n")
        sys.stdout.flush()
    return failed
