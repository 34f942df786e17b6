"""Grading works within the limits of the machine, and says which of them, or of its settings, it cannot work within."""

import math
import subprocess
import sys

import pytest

from core import PROJECT
from core.errors import InputError
from grading.grader import Grader

GRADE = """
from grading.grader import Grader
with Grader(workers=1, limit_s=60.0) as grader:
    print(grader.verify('x^2-1', '(x-1)(x+1)'))
"""


def grade_within(kib: int) -> subprocess.CompletedProcess[str]:
    shell = f'ulimit -v {kib}; exec "$0" -c "$1"'
    command = ["bash", "-c", shell, sys.executable, GRADE]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("kib", [1 << 19, 1 << 21])
def test_a_finite_hard_limit_on_memory_is_no_obstacle(kib: int) -> None:
    done = grade_within(kib)
    assert done.stdout == "correct\n", done.stderr


# Within 64,000 KiB math-verify aborts or hangs, and within 67,000 it calls these two answers different.
@pytest.mark.parametrize("kib", [64_000, 67_000, 262_143])
def test_a_limit_that_is_too_low_is_one_message_with_the_number(kib: int) -> None:
    done = grade_within(kib)
    assert done.returncode and not done.stdout
    last = done.stderr.strip().splitlines()[-1]
    assert f"{kib >> 10} MiB of address space" in last and "needs 256 MiB" in last and "ulimit -v" in last


@pytest.mark.parametrize(
    ("workers", "limit_s"), [(0, 5.0), (-1, 5.0), (1, 0.0), (1, -1.0), (1, math.nan), (1, math.inf)]
)
def test_settings_that_cannot_work_are_refused(workers: int, limit_s: float) -> None:
    with pytest.raises(InputError, match="expected"):
        Grader(workers, limit_s)
