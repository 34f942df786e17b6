"""The commands of ``python -m evaluation``, in their usual order; `evaluation.report` has the pages that they write."""

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, PositiveInt

from core import PROJECT
from core.cli import say
from core.code_digest import SHORT_DIGEST, identity
from core.commands import Command, from_yaml, option
from core.errors import InputError, validated
from core.files import read_object, write_table, write_text
from core.machine.jsonl_tail import send_event
from core.machine.request_paths import OutputFile, OutputFolder, check_output
from core.metric_table import read_step_metrics
from core.model.lineage_file import Manifest
from core.model.prompts import PromptRecord
from core.shared_settings import InterpreterSettings, StorageSettings
from evaluation.benchmarks.suite import suite_entries
from evaluation.generation.endpoint import Budget, Endpoint
from evaluation.generation.generate import CACHE
from evaluation.generation.requests import Sampling
from evaluation.sample_tables import read_folder, read_suite_file, require_suite
from evaluation.settings import (
    BenchmarkSettings,
    DifficultySettings,
    EvaluationSettings,
    GenerateSettings,
    SuiteSettings,
)
from grading.graded_table import Verifiers, grade_table, problems_of
from grading.row_fields import Columns
from grading.tools.settings import ToolSettings
from grading.verifiers.spec import open_verifier, parse_spec, read_spec, require_fields, spec_text

if TYPE_CHECKING:
    import pyarrow as pa

    from evaluation.benchmarks.suite import Benchmark
    from evaluation.report.model_comparison import Results

MODEL = "A model folder, a hub id[@revision], or MODEL@URL of an OpenAI-compatible endpoint"
SUITE_FILE = option(..., "File that `suite` wrote.", metavar="FILE.parquet")
KEPT_SAMPLES = option(CACHE, "Folder that keeps samples for later commands.", metavar="DIR")


def _spec(value: Any) -> Any:
    """Return a verifier as the text of its spec with absolute paths: the command may run elsewhere."""
    return spec_text(parse_spec(value, "--verifier") if isinstance(value, dict) else read_spec(value, "--verifier"))


Verifier = Annotated[str, BeforeValidator(_spec)]
VERIFIER = option(
    "math", "The verifier of the answers: a type, or a mapping with its type and options.", metavar="SPEC"
)
DATA_SOURCE = option("generated", "The data_source that the verifier gets.", metavar="NAME")


class _Problems(Command):
    """Base of the commands that read a suite."""

    suite: SuiteSettings = SuiteSettings()
    benchmarks: BenchmarkSettings = BenchmarkSettings()

    def problems(self, entries: "list[Benchmark]") -> "pa.Table":
        """Return the problems of ``entries``."""
        from evaluation.benchmarks.benchmark_problems import read_suite

        settings = self.benchmarks
        chosen = {"limit": settings.limit, "seed": settings.seed, "system_prompt": settings.system_prompt}
        return read_suite(entries, settings.folders, **chosen)


class Suite(_Problems):
    """Write the problems of benchmarks into one suite file."""

    everyday = ("suite.name", "benchmarks.roots", "benchmarks.limit")
    examples = ("luffy evaluate suite --suite embedded --limit 20 --out suite.parquet",)

    out: OutputFile = option(..., "The file to write.", metavar="FILE.parquet")

    def run(self) -> None:
        from evaluation.benchmarks.benchmark_files import local_files

        entries = self.suite.entries()
        check_output(self.out, Path(self.suite.name), *local_files(entries, self.benchmarks.folders))
        table = self.problems(entries)
        write_table(table, self.out)
        say(f"{self.out}: {table.num_rows} problems of {', '.join(entry.name for entry in entries)}")


class Generate(Command):
    """Draw samples with vLLM (in the training interpreter)."""

    everyday = ("evaluation.samples", "evaluation.temperature", "evaluation.max_tokens", "evaluation.template")
    examples = (
        "luffy evaluate generate --model Qwen/Qwen3-0.6B --suite suite.parquet --out samples",
        "luffy evaluate generate --request samples/request.json",
    )

    model: str = option(..., f"{MODEL}.", metavar="MODEL")
    suite: Path = SUITE_FILE
    out: OutputFolder = option(..., "Folder for <benchmark>.parquet with responses.", metavar="DIR")
    benchmarks: tuple[str, ...] | None = option(None, "Sample only this benchmark. Repeatable.", metavar="NAME")
    cache: Path = KEPT_SAMPLES
    checkpoint: str | None = option(None, "Digest that names the model in results.", hidden=True)
    counts: dict[str, dict[str, PositiveInt]] | None = option(None, "Samples of each problem.", hidden=True)
    evaluation: EvaluationSettings = EvaluationSettings()
    interpreter: InterpreterSettings = InterpreterSettings()
    tools: ToolSettings | None = None

    def run(self) -> None:
        from evaluation.generation.generate import generate
        from evaluation.generation.model_source import open_model

        table = read_suite_file(self.suite)
        if self.interpreter.backend != "local":
            _submit("generate", self, self.interpreter, self.out)
            for name in table["benchmark"].unique().to_pylist():
                if self.benchmarks is None or name in self.benchmarks:
                    say(self.out / f"{name}.parquet")
            return
        engines = self.evaluation.engines(self.model)
        with _sampling_process():
            paths = generate(
                open_model(self.model, checkpoint=self.checkpoint, tools=self.tools, **engines),
                table,
                self.out,
                benchmarks=self.benchmarks,
                sampling=self.sampling(),
                counts=self.counts,
                cache=self.cache,
                report=send_event,
            )
        self.write(self.out / "request.json")
        for path in paths.values():
            say(path)

    def sampling(self) -> Sampling:
        """Return how samples are drawn; without their number, where ``counts`` has it."""
        return self.evaluation.sampling(None if self.counts else self.evaluation.fixed_samples)


class Traces(Command):
    """Draw reasoning traces of a teacher, for targets (in the training interpreter)."""

    everyday = ("generate.teacher", "generate.problems", "generate.samples", "generate.budget_tokens")
    examples = (
        "luffy evaluate traces --teacher Qwen/Qwen3-8B --problems problems.jsonl --out traces.parquet",
        "luffy evaluate traces --teacher NAME@http://HOST:8000/v1 --problems problems.jsonl "
        "--budget-tokens 1000000 --out traces.parquet",
    )

    out: OutputFile = option(..., "File of the traces, which is a source of targets.", metavar="FILE.parquet")
    fields: Annotated[Columns, from_yaml("--fields")] = option(
        {}, "Columns that the verifier reads, too: [options], or {entry: column.path}.", metavar="YAML"
    )
    verifier: Verifier = VERIFIER
    data_source: str = DATA_SOURCE
    log_probs: bool = option(True, "Keep the teacher's log-probabilities, unless it is an endpoint or calls tools.")
    cache: Path = KEPT_SAMPLES
    generate: GenerateSettings
    interpreter: InterpreterSettings = InterpreterSettings()
    tools: ToolSettings | None = None

    def run(self) -> None:
        from evaluation.generation.model_source import open_model
        from evaluation.generation.teacher_traces import TraceOptions, draw_traces, read_problems
        from evaluation.statistics.solve_rate import verdicts_of

        settings, path = self.generate, Path(self.generate.problems)
        endpoint = Endpoint.parse(settings.teacher)
        if self.interpreter.backend != "local" and endpoint is None:
            _submit("traces", self, self.interpreter, Path(f"{self.out}.job"))
            say(self.out)
            return
        check_output(self.out, path)
        spec = read_spec(self.verifier, "--verifier")
        try:
            require_fields(spec, self.fields, f"the file {path}")
        except ValueError as error:
            raise InputError(f"--fields: {error}") from None
        problems = read_problems(path, settings.problem_column, settings.answer_column, self.fields)
        teacher = open_model(settings.teacher, tools=self.tools, **settings.engines(settings.teacher))
        if isinstance(teacher, Endpoint):
            teacher = replace(teacher, concurrency=settings.concurrency)
        budget = Budget(*settings.budget(), covers_cached=settings.budget_covers_cached) if endpoint else None
        verifier = open_verifier(spec, workers=settings.grade_workers, limit_s=settings.grade_limit_s)
        sampling, log_probs = settings.sampling(settings.samples), self.log_probs and endpoint is None
        with _sampling_process(), verifier:
            drawn = draw_traces(
                teacher,
                problems,
                self.out,
                TraceOptions(sampling, settings.system_prompt, budget, log_probs, self.data_source),
                cache=self.cache,
                verify=lambda rows: verdicts_of(rows, verifier, self.data_source),
                report=send_event,
            )
            spent = (budget.prompt_tokens + budget.answer_tokens, budget.cost) if budget else (0, 0.0)
            send_event({"event": "traces", **asdict(drawn), "tokens": spent[0], "cost": spent[1]})
        say(f"{self.out}: {drawn.rows:,} of {drawn.requested:,} traces, {drawn.cached:,} of them drawn before")
        if drawn.empty:
            say(f"note: {drawn.empty_text}")
        if repeats := len(problems) - len({problem.text for problem in problems}):
            say(f"note: {repeats:,} rows of {path} repeat an earlier problem, and have the same samples")
        if budget:
            end = "" if drawn.rows == drawn.requested else "; the budget ends here: raise it and run the command again"
            say(f"spent {spent[0]:,} tokens, cost {spent[1]:.4f}{end}")


class Difficulty(Command):
    """Measure how often a model solves each problem."""

    examples = ("luffy evaluate difficulty --samples traces.parquet --out difficulty.parquet",)

    samples: Path = option(..., "File that `traces` wrote.", metavar="FILE.parquet")
    out: OutputFile = option(..., "The pass rate of each problem.", metavar="FILE.parquet")
    verifier: Verifier = VERIFIER
    data_source: str = DATA_SOURCE
    difficulty: DifficultySettings = DifficultySettings()

    def run(self) -> None:
        from evaluation.statistics.solve_rate import histogram_text, measure_difficulty

        settings, spec = self.difficulty, read_spec(self.verifier, "--verifier")
        check_output(self.out, self.samples)
        with open_verifier(spec, workers=settings.grade_workers, limit_s=settings.grade_limit_s) as verifier:
            thinking = settings.thinking is not False
            table = measure_difficulty(self.samples, verifier, self.data_source, thinking=thinking)
        write_table(table, self.out)
        say(histogram_text(table))
        say(f"{self.out}: {table.num_rows:,} problems")


class Grade(Command):
    """Grade samples."""

    everyday = ("evaluation.thinking", "evaluation.truncated")
    examples = ("luffy evaluate grade --suite suite.parquet --samples samples --out graded",)

    suite: Path = SUITE_FILE
    samples: Path = option(..., "Folder that `generate` wrote.", metavar="DIR")
    out: OutputFolder = option(..., "Folder for <benchmark>.parquet with verdicts.", metavar="DIR")
    evaluation: EvaluationSettings = EvaluationSettings()

    def run(self) -> None:
        from evaluation.statistics.benchmark_scores import summarize

        table, tables = read_suite_file(self.suite), read_folder(self.samples, "samples")
        for samples in tables.values():
            problems_of(samples, table)  # refuses what it cannot grade before anything is written
        rules = {"thinking": self.evaluation.thinking, "truncated": self.evaluation.truncated}
        with Verifiers(self.evaluation.grade_workers, self.evaluation.grade_limit_s) as verifiers:
            for name, samples in tables.items():
                graded = grade_table(samples, table, verifiers, **rules)
                write_table(graded, self.out / f"{name}.parquet")
                say(f"{name}: {summarize(graded).to_text()}")


class Compare(_Problems):
    """Compare models: checkpoints, hub ids or graded results."""

    everyday = (*Suite.everyday, "evaluation.samples")
    examples = (
        "luffy evaluate compare Qwen/Qwen3-0.6B Qwen/Qwen3-1.7B --limit 20",
        "luffy evaluate compare graded-base graded-policy",
    )

    models: tuple[str, ...] = option(
        ...,
        f"{MODEL}, or a folder that `grade` wrote. The others are compared with the first.",
        cli="",
        metavar="MODEL...",
    )
    pass_at: int | None = option(None, "Also report pass@K. Every problem needs K stored samples.", metavar="K", ge=1)
    out: OutputFolder | None = option(None, "Keep the graded results of each model below this folder.", metavar="DIR")
    cache: Path = KEPT_SAMPLES
    evaluation: EvaluationSettings = EvaluationSettings()
    tools: ToolSettings | None = None

    def run(self) -> int | None:
        from evaluation.report.comparison_warnings import comparison_warnings
        from evaluation.report.model_comparison import comparison_table

        (first, baseline), *others = (results := self.results(self.out)).items()
        say(comparison_table(results, pass_at=self.pass_at).to_text())
        for name, tables in others:
            for warning in comparison_warnings(baseline, tables, (first, name)):
                say(f"note: {warning}")
        return None

    def results(self, out: Path | None) -> "dict[str, Results]":
        """Return the graded results of each model; those that have none are evaluated, and stay below ``out``.

        Raises:
            InputError: A name is no model and no folder of results, or an option would change nothing.
        """
        from evaluation.report.model_comparison import evaluate, stored_results

        results = stored_results(self.models)
        unused = [name for name in self._given if name not in ("MODEL...", "--pass-at", "--profile")]
        if unused and len(results) == len(self.models):
            raise InputError(
                f"compare: {', '.join(unused)} would change nothing: graded results are compared as they are; leave it "
                "out, or name a model"
            )
        if names := [name for name in self.models if name not in results]:
            with _sampling_process():
                results |= evaluate(names, self._suite(), self.evaluation, self.cache, out, self.tools)
        return {name: results[name] for name in self.models}

    def _suite(self) -> "pa.Table":
        if self.suite.name.endswith(".parquet"):
            return read_suite_file(Path(self.suite.name))
        return self.problems(self.suite.entries())


class Leaderboard(Compare):
    """Rank all checkpoints that were graded on the same problems, after an evaluation of the models that you name."""

    examples = ("luffy evaluate leaderboard", "luffy evaluate leaderboard Qwen/Qwen3-0.6B --set suite.name=mine.yaml")

    models: tuple[str, ...] = option((), f"{MODEL}, to evaluate first.", cli="", metavar="[MODEL]...")
    pass_at: None = option(None, "Of `compare`.", hidden=True)  # pyright: ignore[reportIncompatibleVariableOverride]
    out: OutputFolder | None = option(
        None,
        "Folder of graded results, also for the models. Default: the results of the storage.",
        cli="--results",
        metavar="DIR",
    )
    markdown: OutputFile | None = option(None, "Also write the tables to this file.", metavar="FILE.md")
    storage: StorageSettings = StorageSettings()

    def run(self) -> int | None:
        from evaluation.report.leaderboard import leaderboard_markdown, leaderboard_text, rank_folder

        folder = self.out or self.storage.path / "graded"
        if self.markdown:
            check_output(self.markdown, folder)
        if self.models:
            self.results(folder)
        rankings = rank_folder(folder)
        say(leaderboard_text(rankings))
        if self.markdown:
            write_text(leaderboard_markdown(rankings), self.markdown)
            say(f"\n{self.markdown}")
        return None


class Report(Command):
    """Write the scorecard of a base model and a policy."""

    examples = ("luffy evaluate report --suite suite.parquet --base graded-base --policy graded --out card.html",)

    suite: Path = SUITE_FILE
    base: Path = option(..., "Results of the base, from `grade`.", metavar="DIR")
    policy: Path = option(..., "Results of the policy, from `grade`.", metavar="DIR")
    out: OutputFile = option(..., "The page to write.", metavar="FILE.html")
    champion: Path | None = option(None, "Results of the champion, to compare the policy with.", metavar="DIR")
    targets: Path | None = option(
        None,
        "Training targets to search for problems of the suite. Default: the file that --lineage names.",
        metavar="FILE.parquet",
    )
    lineage: Path | None = option(None, "The policy's lineage.json.", metavar="JSON")
    metrics: Path | None = option(None, "The training run's metrics.jsonl.", metavar="JSONL")
    markdown: OutputFile | None = option(None, "Also write a summary to this file.", metavar="FILE.md")

    def run(self) -> None:
        from evaluation.report.scorecard.scorecard import build_scorecard
        from evaluation.report.scorecard.scorecard_html import write_page
        from evaluation.report.scorecard.scorecard_text import render_markdown, render_text
        from grading.contamination import search_lineage, search_targets

        inputs = (self.suite, self.base, self.policy, self.champion, self.targets, self.lineage)
        check_output(self.out, *inputs, self.metrics)
        if self.markdown:
            check_output(self.markdown, *inputs, self.metrics, self.out)
        table = read_suite_file(self.suite)
        lineage = contamination = None
        if self.lineage:
            advice = "; give the lineage.json of a policy"
            lineage = validated(Manifest, read_object(self.lineage), f"{self.lineage}: ", advice)
            contamination = None if self.targets else search_lineage(lineage, self.lineage.parent, table)
        if self.targets:
            contamination = search_targets(self.targets, table)
        folders = {"base": self.base, "policy": self.policy, "champion": self.champion}
        results = {role: read_folder(folder, "graded") for role, folder in folders.items() if folder}
        for role, tables in results.items():
            require_suite(tables, table, f"--{role} {folders[role]}")
        scorecard = build_scorecard(
            results["base"],
            results["policy"],
            suite=suite_entries(table),
            champion=results.get("champion"),
            contamination=contamination,
            lineage=lineage,
            training_metrics=read_step_metrics(self.metrics) if self.metrics else [],
        )
        write_page(scorecard, self.out)
        if self.markdown:
            write_text(render_markdown(scorecard), self.markdown)
        say(render_text(scorecard))
        say(f"\n{self.out}")


class Browse(Command):
    """Write all graded samples to one HTML page that opens offline."""

    results: Path = option(..., "Folder that `grade` wrote.", cli="", metavar="DIR")
    out: OutputFile = option(..., "The page to write.", metavar="FILE.html")

    def run(self) -> None:
        from evaluation.report.sample_browser import browse

        check_output(self.out, self.results)
        rows = browse(read_folder(self.results, "graded"), self.out)
        say(f"{self.out}: {rows:,} rows")


class Export(Command):
    """Write graded samples as logs that `inspect view` opens, or a suite as tasks of lm-evaluation-harness."""

    examples = (
        "luffy evaluate export inspect --suite suite.parquet --samples graded --out logs",
        "luffy evaluate export lm-eval --suite suite.parquet --out tasks",
    )

    kind: Literal["inspect", "lm-eval"] = option(..., "What to write.", cli="", metavar="inspect|lm-eval")
    suite: Path = SUITE_FILE
    out: OutputFolder = option(..., "Folder for the logs or tasks.", metavar="DIR")
    samples: Path | None = option(
        None,
        "Folder that `grade` wrote; for tasks also `generate`'s folder, if they take its sampling and its rendered "
        "prompts, which samples of an endpoint do not have.",
        metavar="DIR",
    )
    thinking: bool | None = option(
        None, "Tasks count an answer only after </think>. Default: the prompt template decides."
    )

    def run(self) -> None:
        if self.kind == "inspect":
            self._logs()
            return
        from evaluation.export.lm_eval import write_tasks

        sampled = read_folder(self.samples, "samples") if self.samples else None
        names = write_tasks(read_suite_file(self.suite), self.out, sampled=sampled, thinking=self.thinking)
        rendered = sampled and not any(PromptRecord.of(table).is_messages for table in sampled.values())
        template = "" if rendered else " --apply_chat_template"
        say(f"{self.out}: {', '.join(names)}")
        say(f"PYTHONPATH={PROJECT} lm_eval --include_path {self.out} --tasks luffy{template} --model …")

    def _logs(self) -> None:
        from evaluation.export.inspect_log import write_logs

        if self.samples is None or self.thinking is not None:
            raise InputError("export inspect: give --samples with the folder that `grade` wrote, and no --thinking")
        tables = read_folder(self.samples, "graded")
        newest = max((self.samples / f"{name}.parquet").stat().st_mtime for name in tables)
        graded = datetime.fromtimestamp(newest, UTC)
        for path in write_logs(tables, read_suite_file(self.suite), self.out, graded=graded):
            say(path)


COMMANDS = (Suite, Generate, Traces, Difficulty, Grade, Compare, Leaderboard, Report, Browse, Export)


def _submit(name: str, command: Command, interpreter: InterpreterSettings, out: Path) -> None:
    """Run a command as a job of a cluster, which keeps its log and progress below ``out``."""
    from core.backends.elsewhere import run_elsewhere

    _leave_on_term()  # which ends the job
    here = command.model_copy(update={"interpreter": InterpreterSettings()})
    run_elsewhere(
        ("evaluation", name),
        here,
        interpreter,
        out / "attempts",
        f"evaluation-{identity(str(Path.cwd()), name, command.model_dump(mode='json'))[:SHORT_DIGEST]}",
        what="evaluation",
        report=send_event,
        say=lambda line: sys.stderr.write(f"evaluation: {line}\n"),
    )


def _leave_on_term() -> list[int]:
    """On SIGTERM, leave through every `finally`; the result gets the number of the signal when it comes."""
    received: list[int] = []

    def leave(number: int, _frame: object) -> None:
        received.append(number)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    return received


@contextmanager
def _sampling_process() -> Iterator[None]:
    """Keep the samples on SIGTERM, and end quietly after a success."""
    received = _leave_on_term()
    try:
        yield
    except Exception:
        if received:  # the clean-up of a library may replace the exit by an error of its own
            sys.exit(128 + received[0])
        raise
    # libtriton reports leaks at interpreter exit, which Triton hides in the same way in its own workers.
    atexit.register(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2))
