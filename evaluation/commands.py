"""The commands of ``python -m evaluation``, each a function of its request; `evaluation.__main__` parses them."""

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evaluation.command_requests import (
        CompareRequest,
        DifficultyRequest,
        GenerateRequest,
        GradeRequest,
        ReportRequest,
        SuiteRequest,
        TracesRequest,
    )


def suite(request: "SuiteRequest") -> None:
    """Write the problems of benchmarks into one suite file."""
    from core.files import write_table
    from evaluation.benchmarks.benchmark_problems import read_suite
    from evaluation.benchmarks.suite import select_benchmarks

    benchmarks = select_benchmarks(request.suite, request.benchmarks)
    table = read_suite(
        benchmarks, list(request.roots), limit=request.limit, seed=request.seed, system_prompt=request.system_prompt
    )
    write_table(table, request.out)
    print(f"{request.out}: {table.num_rows} problems of {', '.join(benchmark.name for benchmark in benchmarks)}")


def generate(request: "GenerateRequest") -> None:
    """Draw samples with vLLM (in the training interpreter)."""
    from core.progress import reporter
    from evaluation.generation.generate import generate as draw_samples
    from evaluation.generation.model_source import open_model
    from evaluation.sample_tables import read_suite_file

    table = read_suite_file(request.suite)
    if request.backend != "local":
        _submit("generate", request, request.out)
        for name in table["benchmark"].unique().to_pylist():
            if request.benchmarks is None or name in request.benchmarks:
                print(request.out / f"{name}.parquet")
        return
    with _sampling_process(), reporter() as report:
        paths = draw_samples(
            open_model(request.model, checkpoint=request.checkpoint, **request.engines(request.model)),
            table,
            request.out,
            benchmarks=request.benchmarks,
            sampling=request.sampling(),
            counts=request.sample_counts(),
            cache=request.cache,
            report=report,
        )
    request.write(request.out / "request.json")
    for path in paths.values():
        print(path)


def traces(request: "TracesRequest") -> None:
    """Draw reasoning traces of a teacher, for targets (in the training interpreter)."""
    from dataclasses import asdict, replace

    from core.errors import InputError
    from core.progress import reporter
    from evaluation.generation.endpoint import Endpoint
    from evaluation.generation.model_source import open_model
    from evaluation.generation.token_budget import Budget
    from evaluation.generation.traces import TraceOptions, draw_traces, read_problems
    from evaluation.statistics.solve_rate import verdicts_of
    from grading.verifiers.spec import open_verifier

    if request.backend != "local":
        if Endpoint.parse(request.teacher):
            raise InputError("--backend: an endpoint has its own engines and is asked from here: leave --backend out")
        _submit("traces", request, Path(f"{request.out}.job"))
        print(request.out)
        return
    request.check_fields()
    problems = read_problems(request.problems, request.problem_column, request.answer_column, request.fields)
    teacher = open_model(request.teacher, **request.engines(request.teacher))
    if isinstance(teacher, Endpoint) and request.concurrency:
        teacher = replace(teacher, concurrency=request.concurrency)
    limited = request.budget_tokens is not None or request.budget_money is not None
    limits = (request.budget_tokens, request.budget_money, request.input_price, request.output_price)
    budget = None
    if limited or isinstance(teacher, Endpoint):
        budget = Budget(*limits, covers_cached=request.budget_covers_cached)
    verifier = open_verifier(request.spec(), workers=request.workers, limit_s=request.limit_s)
    with _sampling_process(), reporter() as report, verifier:
        log_probs = request.log_probs and not isinstance(teacher, Endpoint)
        drawn = draw_traces(
            teacher,
            problems,
            request.out,
            TraceOptions(request.sampling(), request.system_prompt, budget, log_probs),
            cache=request.cache,
            verify=lambda rows: verdicts_of(rows, verifier, request.data_source),
            report=report,
        )
        spent = (budget.prompt_tokens + budget.answer_tokens, budget.cost) if budget else (0, 0.0)
        report({"event": "traces", **asdict(drawn), "tokens": spent[0], "cost": spent[1]})
    print(f"{request.out}: {drawn.rows:,} of {drawn.requested:,} traces, {drawn.cached:,} of them drawn before")
    if budget:
        end = "" if drawn.rows == drawn.requested else "; the budget ends here: raise it and run the command again"
        print(f"spent {spent[0]:,} tokens, cost {spent[1]:.4f}{end}")


def difficulty(request: "DifficultyRequest") -> None:
    """Measure how often a model solves each problem."""
    from core.files import write_table
    from evaluation.statistics.solve_rate import histogram_text, measure_difficulty
    from grading.verifiers.spec import open_verifier

    with open_verifier(request.spec(), workers=request.workers, limit_s=request.limit_s) as verifier:
        table = measure_difficulty(request.samples, verifier, request.data_source, thinking=request.thinking)
    write_table(table, request.out)
    print(histogram_text(table))
    print(f"{request.out}: {table.num_rows:,} problems")


def grade(request: "GradeRequest") -> None:
    """Grade samples."""
    from core.files import write_table
    from evaluation.sample_tables import read_folder, read_suite_file
    from evaluation.statistics.scores import summarize
    from grading.graded_table import Verifiers, grade_table

    table = read_suite_file(request.suite)
    with Verifiers(request.workers, request.limit_s) as verifiers:
        for name, samples in read_folder(request.samples, "samples").items():
            rules = {"thinking": request.thinking, "truncated": request.truncated}
            graded = grade_table(samples, table, verifiers, **rules)
            write_table(graded, request.out / f"{name}.parquet")
            print(f"{name}: {summarize(graded).to_text()}")


def disagreements(results: Path, second: str, limit_s: float, out: Path | None) -> None:
    """List the verdicts with which a second grader disagrees."""
    from core.files import write_table
    from evaluation.sample_tables import read_folder
    from evaluation.second_grader import disagreements as find_disagreements
    from evaluation.second_grader import disagreements_text

    table = find_disagreements(read_folder(results, "graded"), second, limit_s=limit_s)
    print(disagreements_text(table))
    if out:
        write_table(table, out)
        print(out)


def recheck(run: Path, suite: Path, remade: Path | None) -> int:
    """Check a recorded run; the number of differences."""
    from evaluation.recheck import compare_runs, recheck_verdicts
    from evaluation.recorded_run import read_run
    from evaluation.sample_tables import read_suite_file
    from grading.graded_table import Verifiers

    recorded = read_run(run)
    with Verifiers(2, 5.0) as verifiers:
        checks = [recheck_verdicts(recorded, read_suite_file(suite), verifiers)]
    print(checks[0])
    if remade is not None:
        for check in compare_runs(recorded, read_run(remade)):
            print(check)
            checks.append(check)
    return sum(len(check.differences) for check in checks)


def browse(results: Path, out: Path) -> None:
    """Write all graded samples on one HTML page, which opens without a network."""
    from evaluation.report.sample_browser import browse as write_samples
    from evaluation.sample_tables import read_folder

    rows = write_samples(read_folder(results, "graded"), out)
    print(f"{out}: {rows:,} rows")


def inspect(results: Path, suite: Path, out: Path) -> None:
    """Write graded samples as logs of Inspect, which `inspect view --log-dir DIR` opens."""
    from datetime import UTC, datetime

    from evaluation.export.inspect_log import write_logs
    from evaluation.sample_tables import read_folder, read_suite_file

    tables = read_folder(results, "graded")
    newest = max((results / f"{name}.parquet").stat().st_mtime for name in tables)
    graded = datetime.fromtimestamp(newest, UTC)
    for path in write_logs(tables, read_suite_file(suite), out, graded=graded):
        print(path)


def lm_eval(suite: Path, samples: Path | None, out: Path, thinking: bool | None) -> None:
    """Write a suite as tasks of lm-evaluation-harness."""
    from core.code_digest import PROJECT
    from evaluation.export.lm_eval import write_tasks
    from evaluation.sample_tables import read_folder, read_suite_file

    sampled = read_folder(samples, "samples") if samples else None
    names = write_tasks(read_suite_file(suite), out, sampled=sampled, thinking=thinking)
    template = "" if sampled else " --apply_chat_template"
    print(f"{out}: {', '.join(names)}")
    print(f"PYTHONPATH={PROJECT} lm_eval --include_path {out} --tasks luffy{template} --model …")


def compare(request: "CompareRequest") -> None:
    """Compare models: checkpoints, hub ids or graded results."""
    from evaluation.report.model_comparison import Evaluation, comparison_table, evaluate

    evaluation = Evaluation(
        suite=request.suite,
        roots=request.roots,
        benchmarks=request.benchmarks,
        limit=request.limit,
        sampling=request.sampling(),
        engines=request.engines(*request.models),
        cache=request.cache,
        workers=request.workers,
        limit_s=request.limit_s,
        thinking=request.thinking,
        truncated=request.truncated,
    )
    with _sampling_process():
        print(comparison_table(evaluate(request.models, evaluation, request.out), pass_at=request.pass_at).to_text())


def leaderboard(results: Path, markdown: Path | None) -> None:
    """Rank all checkpoints that were graded on the same problems."""
    from core.files import write_text
    from evaluation.report.leaderboard import leaderboard_markdown, leaderboard_text, rank_folder

    rankings = rank_folder(results)
    print(leaderboard_text(rankings))
    if markdown:
        write_text(leaderboard_markdown(rankings), markdown)
        print(f"\n{markdown}")


def report(request: "ReportRequest") -> None:
    """Write the scorecard of a base model and a policy."""
    from core.files import write_text
    from evaluation.benchmarks.suite import suite_entries
    from evaluation.report.scorecard.report_inputs import read_filter_counts, read_lineage, read_metrics
    from evaluation.report.scorecard.scorecard import build_scorecard
    from evaluation.report.scorecard.scorecard_html import write_page
    from evaluation.report.scorecard.scorecard_text import render_markdown, render_text
    from evaluation.sample_tables import read_folder, read_suite_file
    from grading.contamination import search_lineage, search_targets

    table = read_suite_file(request.suite)
    lineage, contamination = read_lineage(request.lineage) if request.lineage else {}, None
    if request.targets:
        contamination = search_targets(request.targets, table)
    elif request.lineage:
        contamination = search_lineage(lineage, request.lineage.parent, table)
    scorecard = build_scorecard(
        read_folder(request.base, "graded"),
        read_folder(request.policy, "graded"),
        suite=suite_entries(table),
        champion=read_folder(request.champion, "graded") if request.champion else None,
        contamination=contamination,
        lineage=lineage,
        training_metrics=read_metrics(request.metrics) if request.metrics else [],
        filter_counts=read_filter_counts(request.filter_counts) if request.filter_counts else [],
    )
    write_page(scorecard, request.out)
    if request.markdown:
        write_text(render_markdown(scorecard), request.markdown)
    print(render_text(scorecard))
    print(f"\n{request.out}")


def _submit(command: str, request: "GenerateRequest | TracesRequest", out: "Path") -> None:
    """Run the command as a job of a cluster, whose log and progress are kept below ``out``."""
    from core.progress import reporter
    from evaluation.launch import run_elsewhere

    _leave_on_term()  # which ends the job
    with reporter() as report:
        run_elsewhere(command, request, out, report)


def _leave_on_term() -> None:
    """On SIGTERM, leave through every `finally`."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


@contextmanager
def _sampling_process() -> Iterator[None]:
    """Keep the samples on SIGTERM, and end quietly after a success."""
    _leave_on_term()
    yield
    # libtriton reports leaks at interpreter exit, which Triton hides in the same way in its own workers.
    atexit.register(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2))
