"""What each command of ``python -m evaluation`` does with its options; `evaluation.__main__` reads them."""

import argparse
import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from evaluation.generation.requests import Sampling


def suite(options: argparse.Namespace) -> None:
    """Write the problems of benchmarks into one suite file."""
    from core.files import write_table
    from evaluation.benchmarks.benchmark_problems import read_suite
    from evaluation.benchmarks.suite import select_benchmarks

    benchmarks = select_benchmarks(options.suite, options.benchmarks)
    table = read_suite(
        benchmarks, options.roots, limit=options.limit, seed=options.seed, system_prompt=options.system_prompt
    )
    write_table(table, options.out)
    print(f"{options.out}: {table.num_rows} problems of {', '.join(benchmark.name for benchmark in benchmarks)}")


def generate(options: argparse.Namespace) -> None:
    """Draw samples with vLLM (in the training interpreter)."""
    from core.progress import reporter
    from evaluation.generation.generate import generate as draw_samples
    from evaluation.generation.model_source import open_model
    from evaluation.sample_tables import read_suite_file

    table = read_suite_file(options.suite)
    if options.backend != "local":
        _submit(options, options.out)
        for name in table["benchmark"].unique().to_pylist():
            if options.benchmarks is None or name in options.benchmarks:
                print(options.out / f"{name}.parquet")
        return
    with _sampling_process(), reporter() as report:
        paths = draw_samples(
            open_model(options.model, checkpoint=options.checkpoint, **_engines(options, options.model)),
            table,
            options.out,
            benchmarks=options.benchmarks,
            sampling=_sampling(options),
            cache=options.cache,
            report=report,
        )
    for path in paths.values():
        print(path)


def traces(options: argparse.Namespace) -> None:
    """Draw reasoning traces of a teacher, for targets (in the training interpreter)."""
    from dataclasses import asdict, replace
    from pathlib import Path

    from core.errors import InputError
    from core.progress import reporter
    from evaluation.generation.endpoint import Endpoint
    from evaluation.generation.model_source import open_model
    from evaluation.generation.token_budget import Budget
    from evaluation.generation.traces import TraceOptions, draw_traces, read_problems
    from evaluation.statistics.solve_rate import verdicts_of
    from grading.grader import Grader

    if options.backend != "local":
        if Endpoint.parse(options.teacher):
            raise InputError("--backend: an endpoint has its own engines and is asked from here: leave --backend out")
        _submit(options, Path(f"{options.out}.job"))
        print(options.out)
        return
    problems = read_problems(options.problems, options.problem_column, options.answer_column)
    teacher = open_model(options.teacher, **_engines(options, options.teacher))
    if isinstance(teacher, Endpoint) and options.concurrency:
        teacher = replace(teacher, concurrency=options.concurrency)
    limited = options.budget_tokens is not None or options.budget_money is not None
    limits = (options.budget_tokens, options.budget_money, options.input_price, options.output_price)
    budget = Budget(*limits) if limited or isinstance(teacher, Endpoint) else None
    with _sampling_process(), reporter() as report, Grader(options.workers, options.limit_s) as grader:
        log_probs = options.log_probs and not isinstance(teacher, Endpoint)
        drawn = draw_traces(
            teacher,
            problems,
            options.out,
            TraceOptions(_sampling(options), options.system_prompt, budget, log_probs),
            cache=options.cache,
            verify=lambda rows: verdicts_of(rows, grader),
            report=report,
        )
        spent = (budget.prompt_tokens + budget.answer_tokens, budget.cost) if budget else (0, 0.0)
        report({"event": "traces", **asdict(drawn), "tokens": spent[0], "cost": spent[1]})
    print(f"{options.out}: {drawn.rows:,} of {drawn.requested:,} traces, {drawn.cached:,} of them drawn before")
    if budget:
        end = "" if drawn.rows == drawn.requested else "; the budget ends here: give more, and the same command goes on"
        print(f"spent {spent[0]:,} tokens, cost {spent[1]:.4f}{end}")


def difficulty(options: argparse.Namespace) -> None:
    """Measure how often a model solves each problem."""
    from core.files import write_table
    from evaluation.statistics.solve_rate import histogram_text, measure_difficulty
    from grading.grader import Grader

    with Grader(options.workers, options.limit_s) as grader:
        table = measure_difficulty(options.samples, grader, thinking=options.thinking)
    write_table(table, options.out)
    print(histogram_text(table))
    print(f"{options.out}: {table.num_rows:,} problems")


def grade(options: argparse.Namespace) -> None:
    """Grade samples."""
    from core.files import write_table
    from evaluation.sample_tables import read_folder, read_suite_file
    from evaluation.statistics.scores import summarize
    from grading.grader import Grader, grade_table

    table = read_suite_file(options.suite)
    with Grader(options.workers, options.limit_s) as grader:
        for name, samples in read_folder(options.samples, "samples").items():
            rules = {"thinking": options.thinking, "truncated": options.truncated}
            graded = grade_table(samples, table, grader, **rules)
            write_table(graded, options.out / f"{name}.parquet")
            print(f"{name}: {summarize(graded).to_text()}")


def disagreements(options: argparse.Namespace) -> None:
    """List the verdicts with which a second grader disagrees."""
    from core.files import write_table
    from evaluation.sample_tables import read_folder
    from evaluation.second_grader import disagreements as find_disagreements
    from evaluation.second_grader import disagreements_text

    table = find_disagreements(read_folder(options.results, "graded"), options.second, limit_s=options.limit_s)
    print(disagreements_text(table))
    if options.out:
        write_table(table, options.out)
        print(options.out)


def browse(options: argparse.Namespace) -> None:
    """Write all graded samples on one HTML page, which opens without a network."""
    from evaluation.report.sample_browser import browse as write_samples
    from evaluation.sample_tables import read_folder

    rows = write_samples(read_folder(options.results, "graded"), options.out)
    print(f"{options.out}: {rows:,} rows")


def inspect(options: argparse.Namespace) -> None:
    """Write graded samples as logs of Inspect, which `inspect view --log-dir DIR` opens."""
    from datetime import UTC, datetime

    from evaluation.export.inspect_log import write_logs
    from evaluation.sample_tables import read_folder, read_suite_file

    results = read_folder(options.results, "graded")
    newest = max((options.results / f"{name}.parquet").stat().st_mtime for name in results)
    graded = datetime.fromtimestamp(newest, UTC)
    for path in write_logs(results, read_suite_file(options.suite), options.out, graded=graded):
        print(path)


def lm_eval(options: argparse.Namespace) -> None:
    """Write a suite as tasks of lm-evaluation-harness."""
    from core.code_digest import PROJECT
    from evaluation.export.lm_eval import write_tasks
    from evaluation.sample_tables import read_folder, read_suite_file

    sampled = read_folder(options.samples, "samples") if options.samples else None
    names = write_tasks(read_suite_file(options.suite), options.out, sampled=sampled, thinking=options.thinking)
    template = "" if sampled else " --apply_chat_template"
    print(f"{options.out}: {', '.join(names)}")
    print(f"PYTHONPATH={PROJECT} lm_eval --include_path {options.out} --tasks luffy{template} --model …")


def compare(options: argparse.Namespace) -> None:
    """Compare models: checkpoints, hub ids or graded results."""
    from evaluation.report.model_comparison import Evaluation, comparison_table, evaluate

    evaluation = Evaluation(
        suite=options.suite,
        roots=tuple(options.roots),
        benchmarks=options.benchmarks,
        limit=options.limit,
        sampling=_sampling(options),
        engines=_engines(options, *options.models),
        cache=options.cache,
        workers=options.workers,
        limit_s=options.limit_s,
        thinking=options.thinking,
        truncated=options.truncated,
    )
    with _sampling_process():
        print(comparison_table(evaluate(options.models, evaluation, options.out), pass_at=options.pass_at).to_text())


def leaderboard(options: argparse.Namespace) -> None:
    """Rank all checkpoints that were graded on the same problems."""
    from core.files import write_text
    from evaluation.report.leaderboard import leaderboard_markdown, leaderboard_text, rank_folder

    rankings = rank_folder(options.results)
    print(leaderboard_text(rankings))
    if options.markdown:
        write_text(leaderboard_markdown(rankings), options.markdown)
        print(f"\n{options.markdown}")


def report(options: argparse.Namespace) -> None:
    """Write the scorecard of a base model and a policy."""
    from core.files import write_text
    from evaluation.benchmarks.suite import suite_entries
    from evaluation.report.scorecard.report_inputs import read_filter_counts, read_lineage, read_metrics
    from evaluation.report.scorecard.scorecard import build_scorecard
    from evaluation.report.scorecard.scorecard_html import write_page
    from evaluation.report.scorecard.scorecard_text import render_markdown, render_text
    from evaluation.sample_tables import read_folder, read_suite_file
    from grading.contamination import search_lineage, search_targets

    table = read_suite_file(options.suite)
    lineage, contamination = read_lineage(options.lineage) if options.lineage else {}, None
    if options.targets:
        contamination = search_targets(options.targets, table)
    elif options.lineage:
        contamination = search_lineage(lineage, options.lineage.parent, table)
    scorecard = build_scorecard(
        read_folder(options.base, "graded"),
        read_folder(options.policy, "graded"),
        suite=suite_entries(table),
        champion=read_folder(options.champion, "graded") if options.champion else None,
        contamination=contamination,
        lineage=lineage,
        training_metrics=read_metrics(options.metrics) if options.metrics else [],
        filter_counts=read_filter_counts(options.filter_counts) if options.filter_counts else [],
    )
    write_page(scorecard, options.out)
    if options.markdown:
        write_text(render_markdown(scorecard), options.markdown)
    print(render_text(scorecard))
    print(f"\n{options.out}")


def _sampling(options: argparse.Namespace) -> "Sampling":
    from evaluation.generation.requests import Sampling

    return Sampling(options.samples, options.temperature, options.top_p, options.max_tokens, options.seed)


def _engines(options: argparse.Namespace, *models: str) -> dict[str, Any]:
    """What `open_model` takes for ``models``."""
    from core.errors import InputError
    from core.text.parse import parse_yaml
    from evaluation.generation.endpoint import Endpoint, EndpointOptions

    if options.endpoint and not any(map(Endpoint.parse, models)):
        raise InputError(f"--endpoint: {', '.join(models)}: no MODEL@URL; leave it out for a model on this machine")
    kwargs = parse_yaml(options.chat_template_kwargs, "--chat-template-kwargs")
    if not isinstance(kwargs, dict):
        raise InputError(
            f"--chat-template-kwargs: got {kwargs!r:.80}, expected a mapping, as {{enable_thinking: false}}"
        )
    return {
        "template": options.template,
        "chat_template_kwargs": kwargs,
        "replicas": options.replicas,
        "tensor_parallel": None if options.tensor_parallel == "auto" else int(options.tensor_parallel),
        "trust_remote_code": options.trust_remote_code,
        "endpoint": EndpointOptions.parse(parse_yaml(options.endpoint or "{}", "--endpoint"), "--endpoint"),
    }


def _submit(options: argparse.Namespace, out: "Path") -> None:
    """Run the command as a job of a cluster, whose log and progress are kept below ``out``."""
    from core.progress import reporter
    from evaluation.launch import run_elsewhere

    _leave_on_term()  # which ends the job
    settings = {name: getattr(options, name) for name in ("backend", "ray_address", "slurm")}
    with reporter() as report:
        run_elsewhere(options.arguments, out, settings, report)


def _leave_on_term() -> None:
    """Leave through every `finally` on SIGTERM."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


@contextmanager
def _sampling_process() -> Iterator[None]:
    """Keep the samples on SIGTERM, and end quietly after a success."""
    _leave_on_term()
    yield
    # libtriton reports leaks at interpreter exit, which Triton hides in the same way in its own workers.
    atexit.register(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2))
