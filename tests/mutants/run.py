"""Plant each fault of the tables alone, run the test that should notice it, and say which test did.

`make mutants` plants all of them; ``python tests/mutants/run.py NAME...`` plants some. The exit status is 1 if a fault
is not noticed, or a test fails without a fault.

Each interpreter has a process of its own, which imports the large packages once. Every test runs in a fork of it.
"""

import ast
import importlib
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import drawn_mutants  # noqa: F401
import written_mutants  # noqa: F401
from planting import MUTANTS, VARIABLE, definition, plant

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("hypothesis", "scipy.stats", "pyarrow.parquet", "pydantic", "omegaconf", "dagster", "transformers", "verl")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)
PASSES, FAILS = 0, 1  # exit statuses of pytest
MOST_SECONDS = 300
HERE = "--here"


class Outcome(NamedTuple):
    """The exit status of pytest, what it wrote, and the seconds it took."""

    status: int | None
    output: str
    seconds: float

    @property
    def first(self) -> str:
        """The test that failed first, or else the end of the output."""
        failed = FAILED.search(self.output)
        return failed[1] if failed and self.status == FAILS else self.output[-500:]


def run_test(test: str, mutant: str = "") -> Outcome:
    """Run a test in a fork of this process, with a fault if one is named."""
    with tempfile.TemporaryFile("w+") as output:
        process = multiprocessing.get_context("fork").Process(target=_test, args=(test, mutant, output.fileno()))
        begun = time.monotonic()
        process.start()
        process.join(MOST_SECONDS)
        process.kill()
        process.join()
        output.seek(0)
        return Outcome(process.exitcode, output.read(), time.monotonic() - begun)


def _test(test: str, mutant: str, output: int) -> None:
    import pytest

    os.dup2(output, 1)
    os.dup2(output, 2)
    if mutant:
        os.environ[VARIABLE] = mutant  # for the processes that the test starts
        plant(MUTANTS[mutant])
    status = pytest.main([test, "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", "--no-header"])
    sys.stdout.flush()
    os._exit(status)


def interpreter(name: str) -> str:
    """Return the environment in which the test of a fault runs."""
    module, _, test, _ = MUTANTS[name]
    return ".venv-train" if module.startswith("training.") or "/training/" in test else ".venv"


def missing(names: Iterable[str]) -> list[str]:
    """Say which faults are in functions, or have tests, that do not exist."""
    wrong = []
    for name in names:
        module, function, test, _ = MUTANTS[name]
        file = PROJECT / f"{module.replace('.', '/')}.py"
        file = file if file.exists() else file.with_suffix("") / "__init__.py"
        try:
            definition(ast.parse(file.read_text(encoding="utf-8")), function)
        except (OSError, LookupError):
            wrong.append(f"{name}: no function {module}:{function}: name the one that has its job now")
        if not (PROJECT / test.partition("::")[0]).exists():
            wrong.append(f"{name}: no file {test}: name the one that has its tests now")
    return wrong


def run_here(names: list[str]) -> int:
    """Plant faults whose tests run in this interpreter; the exit status."""
    for package in PACKAGES:
        with suppress(ImportError):
            importlib.import_module(package)
    missed = 0
    for test in dict.fromkeys(MUTANTS[name].test for name in names):
        if (outcome := run_test(test)).status != PASSES:
            print(f"FAILS WITHOUT A FAULT  {test}: {outcome.first}", flush=True)
            missed += 1
    for name in names:
        mutant, outcome = MUTANTS[name], run_test(MUTANTS[name].test, name)
        word = {PASSES: "SURVIVED", FAILS: "noticed"}.get(outcome.status, "BROKEN")
        test = mutant.test if word == "SURVIVED" else outcome.first
        print(f"{word:8} {name}  {mutant.module}:{mutant.function}  {test} ({outcome.seconds:.0f} s)", flush=True)
        missed += word != "noticed"
    print(f"{len(names)} faults in {Path(sys.prefix).name}, {missed} not noticed or not to be tried", flush=True)
    return min(missed, 1)


def main(names: list[str]) -> int:
    names = names or list(MUTANTS)
    if wrong := missing(names):
        print("\n".join(wrong))
        return 1
    paths = os.pathsep.join([str(PROJECT / "tests" / "mutants"), str(PROJECT)])
    variables = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    running = []
    for environment in (".venv", ".venv-train"):
        here = [name for name in names if interpreter(name) == environment]
        command = [PROJECT / environment / "bin" / "python", __file__, HERE, *here]
        running += [subprocess.Popen(command, cwd=PROJECT, env=variables)] if here else []
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(run_here(sys.argv[2:]) if sys.argv[1:2] == [HERE] else main(sys.argv[1:]))
