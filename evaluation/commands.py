"""The work of the commands of ``python -m evaluation`` that take a request; their docstrings are their help."""

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.cli import say
from core.machine.request_paths import check_output
from evaluation.command_requests import (
    CompareRequest,
    DifficultyRequest,
    GenerateRequest,
    GradeRequest,
    ReportRequest,
    SuiteRequest,
    TracesRequest,
)


def suite(request: SuiteRequest) -> None:
    """Write the problems of benchmarks into one suite file."""
    from core.files import write_table
    from evaluation.benchmarks.benchmark_files import local_files
    from evaluation.benchmarks.benchmark_problems import read_suite
    from evaluation.benchmarks.suite import select_benchmarks

    benchmarks = select_benchmarks(request.suite, request.benchmarks)
    check_output(request.out, Path(request.suite), *local_files(benchmarks, request.roots))
    table = read_suite(
        benchmarks, list(request.roots), limit=request.limit, seed=request.seed, system_prompt=request.system_prompt
    )
    write_table(table, request.out)
    say(f"{request.out}: {table.num_rows} problems of {', '.join(benchmark.name for benchmark in benchmarks)}")


def generate(request: GenerateRequest) -> None:
    """Draw samples with vLLM (in the training interpreter)."""
    from core.machine.jsonl_tail import send_event
    from evaluation.generation.generate import generate as draw_samples
    from evaluation.generation.model_source import open_model
    from evaluation.sample_tables import read_suite_file

    table = read_suite_file(request.suite)
    if request.backend != "local":
        _submit("generate", request, request.out)
        for name in table["benchmark"].unique().to_pylist():
            if request.benchmarks is None or name in request.benchmarks:
                say(request.out / f"{name}.parquet")
        return
    with _sampling_process():
        paths = draw_samples(
            open_model(request.model, checkpoint=request.checkpoint, **request.engines(request.model)),
            table,
            request.out,
            benchmarks=request.benchmarks,
            sampling=request.sampling(),
            counts=request.sample_counts(),
            cache=request.cache,
            report=send_event,
        )
    request.write(request.out / "request.json")
    for path in paths.values():
        say(path)


def traces(request: TracesRequest) -> None:
    """Draw reasoning traces of a teacher, for targets (in the training interpreter)."""
    from dataclasses import asdict, replace

    from core.errors import InputError
    from core.machine.jsonl_tail import send_event
    from evaluation.generation.endpoint import Endpoint
    from evaluation.generation.model_source import open_model
    from evaluation.generation.teacher_traces import TraceOptions, draw_traces, read_problems
    from evaluation.generation.token_budget import Budget
    from evaluation.statistics.solve_rate import verdicts_of
    from grading.verifiers.spec import open_verifier

    if request.backend != "local":
        if Endpoint.parse(request.teacher):
            raise InputError("--backend: an endpoint has its own engines and is asked from here: leave --backend out")
        _submit("traces", request, Path(f"{request.out}.job"))
        say(request.out)
        return
    check_output(request.out, request.problems)
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
    with _sampling_process(), verifier:
        log_probs = request.log_probs and not isinstance(teacher, Endpoint)
        drawn = draw_traces(
            teacher,
            problems,
            request.out,
            TraceOptions(request.sampling(), request.system_prompt, budget, log_probs),
            cache=request.cache,
            verify=lambda rows: verdicts_of(rows, verifier, request.data_source),
            report=send_event,
        )
        spent = (budget.prompt_tokens + budget.answer_tokens, budget.cost) if budget else (0, 0.0)
        send_event({"event": "traces", **asdict(drawn), "tokens": spent[0], "cost": spent[1]})
    say(f"{request.out}: {drawn.rows:,} of {drawn.requested:,} traces, {drawn.cached:,} of them drawn before")
    if drawn.empty:
        say(f"note: {drawn.empty_text}")
    if repeats := len(problems) - len({problem.text for problem in problems}):
        say(f"note: {repeats:,} rows of {request.problems} repeat an earlier problem, and have the same samples")
    if budget:
        end = "" if drawn.rows == drawn.requested else "; the budget ends here: raise it and run the command again"
        say(f"spent {spent[0]:,} tokens, cost {spent[1]:.4f}{end}")


def difficulty(request: DifficultyRequest) -> None:
    """Measure how often a model solves each problem."""
    from core.files import write_table
    from evaluation.statistics.solve_rate import histogram_text, measure_difficulty
    from grading.verifiers.spec import open_verifier

    check_output(request.out, request.samples)
    with open_verifier(request.spec(), workers=request.workers, limit_s=request.limit_s) as verifier:
        table = measure_difficulty(request.samples, verifier, request.data_source, thinking=request.thinking)
    write_table(table, request.out)
    say(histogram_text(table))
    say(f"{request.out}: {table.num_rows:,} problems")


def grade(request: GradeRequest) -> None:
    """Grade samples."""
    from core.files import write_table
    from evaluation.sample_tables import read_folder, read_suite_file
    from evaluation.statistics.benchmark_scores import summarize
    from grading.graded_table import Verifiers, grade_table, problems_of

    table, tables = read_suite_file(request.suite), read_folder(request.samples, "samples")
    for samples in tables.values():
        problems_of(samples, table)  # refuses what it cannot grade before anything is written
    with Verifiers(request.workers, request.limit_s) as verifiers:
        for name, samples in tables.items():
            rules = {"thinking": request.thinking, "truncated": request.truncated}
            graded = grade_table(samples, table, verifiers, **rules)
            write_table(graded, request.out / f"{name}.parquet")
            say(f"{name}: {summarize(graded).to_text()}")


def compare(request: CompareRequest) -> None:
    """Compare models: checkpoints, hub ids or graded results."""
    from evaluation.report.comparison_warnings import comparison_warnings
    from evaluation.report.model_comparison import comparison_table, evaluate

    with _sampling_process():
        (first, baseline), *others = (results := evaluate(request)).items()
        say(comparison_table(results, pass_at=request.pass_at).to_text())
        for name, tables in others:
            for warning in comparison_warnings(baseline, tables, (first, name)):
                say(f"note: {warning}")


def report(request: ReportRequest) -> None:
    """Write the scorecard of a base model and a policy."""
    from core.files import write_text
    from core.metric_table import read_step_metrics
    from evaluation.benchmarks.suite import suite_entries
    from evaluation.report.scorecard.report_inputs import read_filter_counts, read_lineage
    from evaluation.report.scorecard.scorecard import build_scorecard
    from evaluation.report.scorecard.scorecard_html import write_page
    from evaluation.report.scorecard.scorecard_text import render_markdown, render_text
    from evaluation.sample_tables import read_folder, read_suite_file, require_suite
    from grading.contamination import search_lineage, search_targets

    inputs = (request.suite, request.base, request.policy, request.champion, request.targets, request.lineage)
    check_output(request.out, *inputs, request.metrics, request.filter_counts)
    if request.markdown:
        check_output(request.markdown, *inputs, request.metrics, request.filter_counts, request.out)
    table = read_suite_file(request.suite)
    lineage, contamination = read_lineage(request.lineage) if request.lineage else {}, None
    if request.targets:
        contamination = search_targets(request.targets, table)
    elif request.lineage:
        contamination = search_lineage(lineage, request.lineage.parent, table)
    folders = {"base": request.base, "policy": request.policy, "champion": request.champion}
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
        training_metrics=read_step_metrics(request.metrics) if request.metrics else [],
        filter_counts=read_filter_counts(request.filter_counts) if request.filter_counts else [],
    )
    write_page(scorecard, request.out)
    if request.markdown:
        write_text(render_markdown(scorecard), request.markdown)
    say(render_text(scorecard))
    say(f"\n{request.out}")


def _submit(command: str, request: GenerateRequest | TracesRequest, out: Path) -> None:
    """Run the command as a job of a cluster, whose log and progress are kept below ``out``."""
    from core.machine.jsonl_tail import send_event
    from evaluation.cluster_job import run_elsewhere

    _leave_on_term()  # which ends the job
    run_elsewhere(command, request, out, send_event)


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
