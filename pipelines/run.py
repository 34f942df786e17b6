"""``python -m pipelines.run``: materialize the graph through Dagster and show it on the terminal.

What ``make demo`` and ``make run`` call. The run is recorded in the instance that ``make ui`` shows.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg

from assets.identity import PROJECT
from evaluation.errors import InputError
from pipelines.follow import Follower, Terminal, selection_keys
from pipelines.home import end_dead_runs, owner_tag, prepare_home
from pipelines.settings import PREFIX, PROFILE

CANCELLED = 130
NEEDS_TRAINING_PYTHON = {"training", "evals", "ood"}


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m pipelines.run", description=__doc__.splitlines()[0].split(": ")[1])
    result.add_argument(
        "--select", metavar="ASSETS", help="an asset selection, e.g. 'group:targets' (default: everything)"
    )
    result.add_argument("--profile", help=f"a profile's name or file (default: {PROFILE}, else embedded)")
    result.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="overrides", help="override a setting"
    )
    result.add_argument("--max-concurrent", type=int, default=2, help="stages at a time (default %(default)s)")
    return result


def main() -> int:
    options = parser().parse_args()
    configure(options.profile, options.overrides)
    os.chdir(PROJECT)
    prepare_home()
    from pipelines import launch  # builds the definitions, which mistakes in settings prevent

    keys = selection_keys(launch.defs, options.select or "*")
    if not keys:
        raise InputError(f"--select {options.select!r}: no asset of that selection; `*` is everything")
    if any(key.path[0] in NEEDS_TRAINING_PYTHON for key in keys):
        training_interpreter(launch.defs).executable()
    terminal = Terminal()
    with dg.DagsterInstance.get() as instance:
        for run_id in end_dead_runs(instance):
            terminal.line(f"ended run {run_id[:8]}: its process is gone")
        if any(key.path[0] == "targets" for key in keys):
            status = execute(instance, launch.observe_job, terminal)
            if status:
                return status
        status = execute(
            instance,
            launch.everything_job,
            terminal,
            keys=keys if options.select else None,
            at_once=options.max_concurrent,
        )
    if status == 0:
        show_result(launch.defs, terminal, keys)
    return status


def configure(profile: str | None, overrides: Sequence[str]) -> None:
    """Put the command line's settings into the environment, where this process and the run's steps find them."""
    if profile:
        os.environ[PROFILE] = profile
    for override in overrides:
        name, equals, value = override.partition("=")
        section, dot, key = name.partition(".")
        if not (equals and dot):
            raise InputError(f"--set {override!r}: expected SECTION.KEY=VALUE, e.g. training.seed=1")
        os.environ[f"{PREFIX}{section}__{key}".upper()] = value


def training_interpreter(defs: dg.Definitions) -> Any:
    """The interpreter resource of the definitions."""
    assert defs.resources is not None
    return defs.resources["interpreter"]


def execute(
    instance: dg.DagsterInstance,
    job: Any,
    terminal: Terminal,
    *,
    keys: Sequence[dg.AssetKey] | None = None,
    at_once: int | None = None,
) -> int:
    """Run ``job`` to its end, showing it; the exit status of the command."""
    tags = owner_tag() | {"luffy/command": f"{job.__name__}-{os.urandom(4).hex()}"}
    config: dict[str, Any] = {"execution": {"config": {"max_concurrent": at_once}}} if at_once else {}
    with Follower(instance, tags, terminal) as follower, output_to(log_file(instance)):
        try:
            result = dg.execute_job(
                dg.reconstructable(job), instance, run_config=config, tags=tags, asset_selection=keys
            )
        except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
            result = None
    run = instance.get_run_by_id(follower.run_id) if follower.run_id else None
    if result is not None and result.success:
        return 0
    if run is not None and run.status == dg.DagsterRunStatus.CANCELED:
        terminal.line("cancelled; the same command goes on from what is complete")
        return CANCELLED
    for failure in follower.failures:
        sys.stderr.write(f"error: {failure}\n")
    if not follower.failures:
        sys.stderr.write(f"error: the run ended as {run.status.value if run else 'nothing'}; `make ui` shows its log\n")
    return 1


def log_file(instance: dg.DagsterInstance) -> Path:
    """Where the run's processes write what Dagster and its libraries have to say beside the event log."""
    return Path(instance.root_directory) / "terminal.log"


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Send what this process and those it starts print to ``path``: the terminal has the follower's lines alone."""
    kept = [(stream, stream.fileno(), os.dup(stream.fileno())) for stream in (sys.stdout, sys.stderr)]
    try:
        with path.open("ab") as log:
            for _, descriptor, _ in kept:
                os.dup2(log.fileno(), descriptor)
        yield
    finally:
        for stream, descriptor, copy in kept:
            stream.flush()
            os.dup2(copy, descriptor)
            os.close(copy)


def show_result(defs: dg.Definitions, terminal: Terminal, keys: Sequence[dg.AssetKey]) -> None:
    """The scorecard, and where to look further."""
    from assets.report import PAGE, SCORECARD, TEXT

    assert defs.resources is not None
    storage = defs.resources["storage"]
    if SCORECARD in keys:
        folder = storage.read_reference(SCORECARD.to_user_string()).path
        terminal.line("")
        with open(f"{folder}/{TEXT}", encoding="utf-8") as text:
            terminal.line(text.read().rstrip())
        terminal.line(f"\nreport: {folder}/{PAGE}")
    else:
        terminal.line(f"\noutputs: {storage.path}")
    terminal.line("look at everything: make ui")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(CANCELLED)
