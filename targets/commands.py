"""What each command of ``python -m targets`` does; `targets.__main__` reads its options."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli import say
from core.errors import InputError
from core.parquet import is_there, read_table
from core.plugins.user_code import python_path
from core.progress import Progress, Terminal
from core.settings import Layer, load, read_run
from targets.check.checks_page import write_page
from targets.check.expectations import check_suite, summarize, validate
from targets.check.version_diff import Difference, compare_versions
from targets.command_requests import PrepareRequest
from targets.prepare import prepare
from targets.prepared_files import (
    PROFILE_FILE,
    Prepared,
    column_texts,
    hint_texts,
    log_probs_text,
    require_targets,
    reuse_texts,
)
from targets.select.split import Split, reconcile, select_train
from targets.settings import TargetSections
from targets.source_settings import GENERATED

if TYPE_CHECKING:
    import pyarrow as pa

MOST_VALUES = 10  # of each metadata, on the terminal
LONGEST_PROBLEM = 160  # characters of a problem that came or went
LONGEST_OBSERVED = 60  # characters of what a check that passed has seen
LARGEST_BENCHMARKS = 32 << 20  # bytes of their problems, which each process keeps with an index of four times the size


def prepare_targets(request: PrepareRequest) -> int:
    """Prepare targets, and split and check them as asked; the exit status is 1 if a check blocks."""
    settings = read_settings(request)
    config = settings.targets
    if request.generated and GENERATED not in config.paths:
        raise InputError(f"--generated {request.generated}: no source reads it; add --source {GENERATED}")
    previous = request.previous / PROFILE_FILE if request.previous else None
    if previous and not is_there(previous):
        raise InputError(
            f"--previous {request.previous}: no {PROFILE_FILE} in it; expected the folder of a preparation"
        )
    if request.check:
        check_suite(config, settings.checks.file)
    began = time.monotonic()
    prepared = prepare(
        config,
        request.out,
        benchmarks=_benchmarks(request.benchmarks, request.benchmark_roots),
        tokenizer_json=request.tokenizer,
        progress=Progress(Terminal(sys.stderr, every_s=0).status),
        cache=request.cache or request.out / ".decisions",
        generated=request.generated,
        force=request.force,
    )
    if request.prepare_only or not prepared.counts["kept"]:
        _print(prepared, None, time.monotonic() - began)
        require_targets(prepared)
        return 0
    split = select_train(prepared, request.out, **settings.split.model_dump(), seed=config.seed)
    _print(prepared, split, time.monotonic() - began)
    if previous:
        _print_lines(compare_versions(previous, prepared.profile))
    if problems := reconcile(prepared, split).problems:
        raise RuntimeError("conservation violated: " + "; ".join(problems))
    return _check(prepared, settings.checks.file, previous, request.docs) if request.check else 0


def read_settings(request: PrepareRequest) -> TargetSections:
    """Return the settings of a preparation: those of a run, or those of the profile, the variables and the options."""
    if request.settings:
        return read_run(request.settings, TargetSections)
    given = [Layer("--source", {"targets": {"source": [*request.source]}}, Path.cwd())] if request.source else []
    if given and any(text.startswith("targets.source=") for text in request.overrides):
        raise InputError("--source and --set targets.source=… say two things: give one of them")
    return load(TargetSections, request.profile, request.overrides, more=given)


def _benchmarks(name: str | None, roots: Sequence[Path]) -> "pa.Table | None":
    """The problems of a parquet file, or of a suite that the evaluation reads in its own process."""
    import pyarrow as pa

    from core.schemas import BENCHMARK

    if name is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(name)
        if path.suffix != ".parquet":
            path = Path(folder) / "suite.parquet"
            command = [sys.executable, "-P", "-m", "evaluation", "suite", "--suite", name, "--out", str(path)]
            command += [part for root in roots for part in ("--roots", str(root))]
            environment = {**os.environ, "PYTHONPATH": python_path()}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                message = done.stderr.strip().splitlines()[-1].removeprefix("error: ")
                raise InputError(f"benchmarks {name}: {message}")
        schema = pa.schema([BENCHMARK.field(column) for column in ("benchmark", "id", "problem")])
        return read_table(path, schema, "give a parquet with benchmark, id and problem", largest=LARGEST_BENCHMARKS)


def print_difference(difference: Difference) -> None:
    """Print two versions side by side, and the rows that came and went."""
    _print_lines([(what, f"{before:,}", f"{now:,}") for what, before, now in difference.lines])
    for what, rows in (("went", difference.went), ("came", difference.came)):
        say(f"\nproblems that {what}{'' if rows else ': none'}")
        for row in rows:
            problem = " ".join(row.problem.split())
            say(f"  {row.id}  {row.target_tokens:,} tokens, gold {row.gold}, in the other version {row.elsewhere}")
            say(f"    {problem[:LONGEST_PROBLEM]}{'…' if len(problem) > LONGEST_PROBLEM else ''}")


def _print_lines(lines: Sequence[tuple[str, str, str]]) -> None:
    width = max(len(what) for what, _, _ in lines)
    for what, before, now in lines:
        say(f"{what:{width}}{before:>14}{now:>14}")


def _print(prepared: Prepared, split: Split | None, seconds: float) -> None:
    for text in (*column_texts(prepared), *reuse_texts(prepared)):
        say(text)
    read = prepared.counts["read"]
    say(f"{'read':18}{read:>9,}")
    for step in prepared.filter_counts:
        say(f"{step['filter']:18}{-step['removed']:>9,}{step['left']:>9,}  {step['title']}")
    speed = "nothing has changed, so nothing was done" if prepared.reused else f"{read / seconds:,.0f} rows/s"
    say(f"{'kept':18}{prepared.counts['kept']:>9,}  {speed}")
    for name, n in sorted(prepared.by_source.items()) if len(prepared.by_source) > 1 else ():
        say(f"{f'source {name}':44.44}{n['read']:>9,}{n.get('kept', 0):>9,} kept")
    for name, values in prepared.breakdown.items():
        for value, n in list(values.items())[:MOST_VALUES]:
            say(f"{f'{name} {value}':44.44}{n['read']:>9,}{n['kept']:>9,} kept")
    for hint in hint_texts(prepared):
        say(hint)
    for what, count in prepared.disagreements.items():
        say(f"{what}: {count:,}")
    if prepared.log_probs:
        say(f"target_log_probs: {log_probs_text(prepared)}")
    if split is not None:
        say(f"train {split.rows:,} rows {split.train}, held out {split.heldout_rows:,}")
    say(f"rejected: {prepared.rejected}")


def _check(prepared: Prepared, suite: Path, previous: Path | None, docs: Path | None) -> int:
    results = validate(prepared.profile, suite=suite, previous=previous)
    if docs:
        write_page(results, docs)
    for result in results:
        state = "ok" if result.passed else "FAILED" if result.severity == "error" else "warning"
        what = str(result.error or result.observed)
        if not result.passed:
            what += f" ({result.where})" if result.where else ""
            limits = ", ".join(f"{name} {value}" for name, value in result.expected.items() if name != "column")
            what += f"; expected: {result.description.removesuffix('.')}" + (f" ({limits})" if limits else "")
        elif len(what) > LONGEST_OBSERVED:
            what = "as expected"
        say(f"{state:8}{result.name:32}{what}")
    for line in summarize(results):
        say(line)
    return int(any(not result.passed and result.severity == "error" for result in results))
