"""The commands of ``python -m targets``, which are also the commands of ``luffy targets``."""

import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from core.cli import say
from core.commands import Command, option
from core.errors import InputError
from core.machine.request_paths import InputFolder, OutputFile, OutputFolder, check_output
from core.plugins.config_files import is_path
from core.program import run_module
from grading.tools.settings import ToolSettings
from targets.settings import CheckSettings, SplitSettings, TargetSettings
from targets.source_settings import GENERATED

if TYPE_CHECKING:
    import pyarrow as pa

    from targets.check.version_diff import Difference
    from targets.prepared_files import Prepared
    from targets.select.split import Split

MOST_VALUES = 10  # of each metadata, on the terminal
LONGEST_PROBLEM = 160  # characters of a problem that came or went
PREPARATION = option(..., "Folder of a preparation.", cli="", metavar="OUT")


class Prepare(Command):
    """Turn raw traces into training targets: filter, verify and deduplicate them, and say why others are rejected.

    It writes prepared, profile, rejected, train, heldout and left_out .parquet.
    """

    everyday = ("targets.source",)
    examples = (
        "luffy targets --tokenizer training/embedded_model/model --out out --check",
        "luffy targets --source 'traces/*.parquet' --tokenizer models/policy --benchmarks paper --out out --check",
        "luffy targets browse out --out page.html",
    )

    out: OutputFolder = option(..., "Output folder.", metavar="DIR")
    tokenizer: Path = option(..., "The policy's tokenizer.json, or its model folder.", metavar="PATH")
    generated: Path | None = option(
        None, "Traces that `luffy evaluate traces` wrote: the source 'generated'.", metavar="FILE"
    )
    benchmarks: str | None = option(
        None,
        "Suite, or parquet file, of problems that must not become targets.",
        metavar="SUITE",
    )
    benchmark_roots: tuple[InputFolder, ...] = option(
        (), "Folder of the suite's files. Repeatable.", metavar="DIR", cli="--benchmark-root"
    )
    prepare_only: bool = option(False, "Neither split nor check the targets.")
    check: bool = option(False, "Run the quality checks; the exit status is 1 if one blocks.")
    previous: Path | None = option(None, "Folder of an earlier preparation, to compare with.", metavar="DIR")
    docs: OutputFolder | None = option(None, "Folder for the page of the quality checks.", metavar="DIR")
    cache: OutputFolder | None = option(
        None, "Folder of decisions, which you may delete. Default: OUT/.decisions.", metavar="DIR"
    )
    force: bool = option(False, "Prepare again, whatever is there.")
    targets: TargetSettings = TargetSettings()
    split: SplitSettings = SplitSettings()
    checks: CheckSettings = CheckSettings()
    tools: ToolSettings | None = None

    @model_validator(mode="after")
    def _has_checks(self) -> Self:
        if self.check and self.prepare_only:
            raise ValueError("prepare_only skips the checks that check requests: give only one of the two")
        if self.prepare_only and self.previous:
            raise ValueError("prepare_only writes no training set to compare with previous: give only one of the two")
        if self.benchmark_roots and (self.benchmarks is None or self.benchmarks.endswith(".parquet")):
            raise ValueError(
                "benchmark_roots has the files of a suite: name the suite with benchmarks, or leave out benchmark_roots"
            )
        if self.docs and not self.check:
            raise ValueError("docs belongs to the quality checks: add check, or leave it out")
        return self

    def run(self) -> int:
        """Prepare targets, and split and check them; the exit status is 1 if a check blocks."""
        from core.parquet import is_there
        from core.progress import Progress, Terminal
        from targets.check.expectations import check_suite
        from targets.check.version_diff import compare_versions
        from targets.files import PROFILE_FILE
        from targets.prepare import prepare
        from targets.prepared_files import require_targets
        from targets.select.split import reconcile, select_train

        # SIGTERM unwinds the stack as Ctrl-C does, so that the workers are stopped on the way out.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        config = self.targets
        if self.generated and GENERATED not in config.paths:
            raise InputError(f"--generated {self.generated}: no source reads it; add --source {GENERATED}")
        previous = self.previous / PROFILE_FILE if self.previous else None
        if previous and not is_there(previous):
            raise InputError(
                f"--previous {self.previous}: no {PROFILE_FILE} in it; expected the folder of a preparation"
            )
        if self.check:
            check_suite(config, self.checks.file)
        began = time.monotonic()
        prepared = prepare(
            config,
            self.out,
            benchmarks=self._benchmark_problems(),
            tokenizer_json=self.tokenizer,
            progress=Progress(Terminal(sys.stderr, every_s=0).status),
            cache=self.cache or self.out / ".decisions",
            generated=self.generated,
            force=self.force,
            tools=self.tools,
        )
        if self.prepare_only or not prepared.counts["kept"]:
            _print_preparation(prepared, None, time.monotonic() - began)
            require_targets(prepared)
            return 0
        split = select_train(prepared, self.out, **self.split.model_dump(), seed=config.seed)
        _print_preparation(prepared, split, time.monotonic() - began)
        if previous:
            _print_lines(compare_versions(previous, prepared.profile))
        if problems := reconcile(prepared, split).problems:
            raise RuntimeError("conservation violated: " + "; ".join(problems))
        return _check_and_print(prepared, self.checks.file, previous, self.docs) if self.check else 0

    def _benchmark_problems(self) -> "pa.Table | None":
        if self.benchmarks is None:
            return None
        if Path(self.benchmarks).suffix == ".parquet":
            return _read_problems(Path(self.benchmarks))
        try:
            return self.read_suite(self.benchmarks)
        except InputError as error:
            raise InputError(f"benchmarks {self.benchmarks}: {error}") from None

    def read_suite(self, name: str) -> "pa.Table":
        """Return the problems of a suite, which another process reads: this package may not import the evaluation."""
        suite = str(Path(name).absolute()) if is_path(name) else name
        options = [part for root in self.benchmark_roots for part in ("--roots", str(root.absolute()))]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "suite.parquet"
            run_module("evaluation", "suite", "--suite", suite, "--out", str(path), *options)
            return _read_problems(path)


class Browse(Command):
    """Write all traces of a preparation, used and rejected, to one HTML page that opens offline.

    Reviewers download their decisions from the page as review.csv, for `--set targets.review=review.csv`.
    """

    folder: Path = PREPARATION
    out: OutputFile = option(..., "The page to write.", metavar="FILE.html")
    ledger: Path | None = option(
        None, "Folder of a training on these targets. Adds its verdict on each target.", metavar="RUN"
    )

    def run(self) -> None:
        from targets.prepared_files import read_prepared
        from targets.trace_browser import browse

        check_output(self.out, self.folder)
        say(f"{self.out}: {browse(read_prepared(self.folder), self.out, self.ledger):,} rows")


class Diff(Command):
    """Compare two preparations: counts, lengths, rejections by filter and source, and added and removed rows."""

    before: Path = option(..., "Folder of a preparation.", cli="", metavar="OLD")
    now: Path = option(..., "Folder of a later preparation.", cli="", metavar="NEW")

    def run(self) -> None:
        from targets.check.version_diff import compare_folders

        _print_difference(compare_folders(self.before, self.now))


class Push(Command):
    """Upload train.parquet and heldout.parquet to the Hugging Face hub as a dataset with a card.

    Log in with `hf auth login`, or set HF_TOKEN.
    """

    folder: Path = PREPARATION
    repository: str = option(
        ..., "Dataset on the hub. It is created if it does not exist.", cli="", metavar="OWNER/NAME"
    )
    license: str | None = option(
        None, "License as the hub names it, such as apache-2.0. Default: the licenses of the sources.", metavar="ID"
    )
    public: bool = option(False, "If the repository does not exist, create a public one.")

    def run(self) -> None:
        from targets.hub.push import push

        digest = push(self.folder, self.repository, license=self.license, public=self.public)
        say(f"{self.repository}: digest {digest}")


class Pull(Command):
    """Download a training set that `push` uploaded, and check its digest."""

    repository: str = option(..., "Dataset on the hub.", cli="", metavar="OWNER/NAME")
    folder: Path = option(..., "The folder to create.", cli="", metavar="OUT")
    revision: str | None = option(None, "Branch, tag or commit of the dataset. Default: the newest.")

    def run(self) -> None:
        from targets.hub.pull import pull

        say(f"{self.folder}/train.parquet: digest {pull(self.repository, self.folder, self.revision)}")


COMMANDS = (Browse, Diff, Push, Pull)


def _read_problems(path: Path) -> "pa.Table":
    import pyarrow as pa

    from core.parquet import read_table
    from core.schemas import BENCHMARK

    schema = pa.schema([BENCHMARK.field(column) for column in ("benchmark", "id", "problem")])
    return read_table(path, schema, "give a parquet with benchmark, id and problem")


def _print_difference(difference: "Difference") -> None:
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


def _print_preparation(prepared: "Prepared", split: "Split | None", seconds: float) -> None:
    from targets.prepared_files import column_texts, hint_texts, log_probs_text, read_example, reuse_texts

    for text in (*column_texts(prepared), *reuse_texts(prepared)):
        say(text)
    read = prepared.counts["read"]
    say(f"{'read':18}{read:>9,}")
    for step in prepared.filter_counts:
        why = read_example(prepared.rejected, step["filter"]) if step["filter"] == "verify_error" else ""
        say(f"{step['filter']:18}{-step['removed']:>9,}{step['left']:>9,}  {step['title']}{why and '.'}{why}")
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


def _check_and_print(prepared: "Prepared", suite: Path, previous: Path | None, docs: Path | None) -> int:
    from targets.check.checks_page import write_page
    from targets.check.expectations import summarize, validate
    from targets.check.source_drift import OF_TWO

    results = validate(prepared.profile, suite=suite, previous=previous)
    if docs:
        write_page(results, docs)
    failed = [result for result in results if not result.passed]
    for result in failed:
        what = result.observed_text
        limits = ", ".join(f"{name} {value}" for name, value in result.expected.items() if name != "column")
        what += f"; expected: {result.description.removesuffix('.')}" + (f" ({limits})" if limits else "")
        say(f"{'FAILED' if result.severity == 'error' else 'warning':8}{result.name:32}{what}")
    if previous is None and (of_two := sum(result.expected.get("column") in OF_TWO for result in results)):
        say(f"{of_two} checks have nothing to compare with yet: --previous names an earlier preparation")
    for line in summarize(results):
        say(line)
    return int(any(result.severity == "error" for result in failed))
