"""``python -m evaluation``: From benchmark problems to a scorecard, without Dagster.

The usual order is suite, generate, grade, report; `compare` does the first three for several models at once. Every
command has --help.
"""

import argparse
import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.backends import BACKENDS
from core.cli import COUNT, SECONDS, SEED, Parser, exit_status, number
from core.errors import InputError

if TYPE_CHECKING:
    from evaluation.generation.requests import Sampling

SLURM = {"time": 1440}  # minutes, as for a training
SECOND_GRADERS = {
    "whole-text": "math-verify on everything after the first </think>, the rule of LUFFY's published evaluation",
    "prime": "the sympy grader of PRIME and PRM800K on the extracted answer, from verl (training interpreter)",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit status."""

    def work() -> None:
        options = parser().parse_args(arguments)
        options.arguments = sys.argv[1:] if arguments is None else arguments
        options.command(options)

    return exit_status(work)


def parser() -> Parser:
    """The command line; the docstring of each command is its help."""
    result = Parser(prog="python -m evaluation", description=(__doc__ or "").split(": ", 1)[1])
    commands = result.add_subparsers(required=True, metavar="COMMAND")

    def add(command: Callable[[argparse.Namespace], None], *parents: Parser) -> Callable[..., object]:
        text = (command.__doc__ or "").rstrip(".")
        added = commands.add_parser(command.__name__, parents=parents, help=text, description=f"{text}.")
        added.set_defaults(command=command)
        return added.add_argument

    problems, seed, sampling, grading = _problem_options(), _options(), _sampling_options(), _grading_options()
    seed.add_argument("--seed", type=SEED, default=0, help="of samples of problems and of responses (default 0)")

    option = add(suite, problems, seed)
    option("--system-prompt", metavar="TEXT", help="system message before every problem")
    option("--out", type=Path, required=True, metavar="FILE.parquet", help="the suite file to write")

    option = add(generate, seed, sampling)
    option("--model", required=True, metavar="MODEL", help="Hugging Face folder, hub id[@revision], or "
           "MODEL@URL of an OpenAI-compatible endpoint")  # fmt: skip
    option("--suite", type=Path, required=True, metavar="FILE.parquet", help="file written by `suite`")
    option("--benchmarks", nargs="*", metavar="NAME", help="only these (default: all of the suite)")
    option("--out", type=Path, required=True, metavar="DIR", help="folder for <benchmark>.parquet")
    option("--checkpoint", metavar="DIGEST", help="names the model (default: from its lineage.json or its files)")
    option("--backend", choices=BACKENDS, default="local", help="where it runs: here, as a job of the Ray cluster at "
           "--ray-address, or as a job of Slurm (default %(default)s)")  # fmt: skip
    option("--ray-address", metavar="URL", help="dashboard of the Ray cluster, http://HOST:8265")
    option("--slurm", type=_mapping, default={**SLURM}, metavar="YAML", help="parameters of sbatch as submitit "
           "names them (default %(default)s)")  # fmt: skip

    option = add(traces, seed, sampling)
    option("--teacher", required=True, metavar="MODEL", help="Hugging Face folder, hub id[@revision], or MODEL@URL of "
           "an OpenAI-compatible endpoint, whose key is in OPENAI_API_KEY")  # fmt: skip
    option("--problems", type=Path, required=True, metavar="FILE", help="parquet, JSON or JSON lines")
    option("--problem-column", default="problem", metavar="NAME", help="its problems (default %(default)s)")
    option("--answer-column", default="answer", metavar="NAME", help="its gold answers (default %(default)s)")
    option("--system-prompt", metavar="TEXT", help="system message before every problem")
    option("--concurrency", type=COUNT, help="requests at once to an endpoint (default 64)")
    option("--budget-tokens", type=COUNT, metavar="N", help="most tokens of prompts and answers together")
    option("--budget-money", type=number(float, 0, above=0), metavar="X", help="most that the tokens may cost")
    for name, what in (("input", "prompts"), ("output", "answers")):
        option(f"--{name}-price", type=number(float, 0), default=0.0, metavar="X",
               help=f"of a million tokens of {what} (default 0)")  # fmt: skip
    option("--out", type=Path, required=True, metavar="FILE.parquet", help="the traces, a source of targets")

    option = add(difficulty, grading)
    option("--samples", type=Path, required=True, metavar="FILE.parquet", help="file written by `traces`")
    option("--out", type=Path, required=True, metavar="FILE.parquet", help="the pass rate of each problem")

    option = add(grade, grading)
    option("--suite", type=Path, required=True, metavar="FILE.parquet", help="file written by `suite`")
    option("--samples", type=Path, required=True, metavar="DIR", help="folder written by `generate`")
    option("--out", type=Path, required=True, metavar="DIR", help="folder for <benchmark>.parquet with verdicts")

    option = add(disagreements)
    option("results", type=Path, metavar="DIR", help="folder written by `grade`")
    graders = "; ".join(map(": ".join, SECOND_GRADERS.items()))
    option("--second", choices=SECOND_GRADERS, default="whole-text", help=f"{graders} (default %(default)s)")
    option("--limit-s", type=SECONDS, default=5.0, help="seconds per sample (default %(default)s)")
    option("--out", type=Path, metavar="FILE.parquet", help="also write all of them, with prompt and response")

    option = add(browse)
    option("results", type=Path, metavar="DIR", help="folder written by `grade`")
    option("--out", type=Path, required=True, metavar="FILE.html", help="the page to write")

    option = add(compare, problems, seed, sampling, grading)
    option("models", nargs="+", metavar="MODEL", help="model folder, hub id[@revision], MODEL@URL of an OpenAI-"
           "compatible endpoint, or folder written by `grade`; the others are compared with the first")  # fmt: skip
    option("--pass-at", type=COUNT, metavar="K", help="also report pass@K; every problem needs K stored samples")
    option("--out", type=Path, metavar="DIR", help="keep the graded results of each model below this folder")

    option = add(leaderboard)
    option("--results", type=Path, default=Path("var/storage/graded"), metavar="DIR",
           help="folder that is searched for graded results (default %(default)s)")  # fmt: skip
    option("--markdown", type=Path, metavar="FILE.md", help="also write the tables to this file")

    option = add(report)
    option("--suite", type=Path, required=True, metavar="FILE.parquet", help="file written by `suite`")
    for role in ("base", "policy"):
        option(f"--{role}", type=Path, required=True, metavar="DIR", help=f"results of the {role}, from `grade`")
    option("--champion", type=Path, metavar="DIR", help="results of the champion, to compare with")
    option("--targets", type=Path, metavar="FILE.parquet", help="training targets that are searched for problems of "
           "the suite (default: the file that --lineage names)")  # fmt: skip
    option("--lineage", type=Path, metavar="JSON", help="the policy's lineage.json")
    option("--metrics", type=Path, metavar="JSONL", help="the training run's metrics.jsonl")
    option("--funnel", type=Path, metavar="JSON", help="how many rows each preparation step left: [[step, rows], …]")
    option("--out", type=Path, required=True, metavar="FILE.html", help="the page to write")
    option("--markdown", type=Path, metavar="FILE.md", help="also write a summary to this file")
    return result


def _options() -> Parser:
    return Parser(add_help=False)


def _problem_options() -> Parser:
    options = _options()
    options.add_argument("--suite", default="embedded", help="name of a suite in evaluation/benchmarks/suites, "
                         "a YAML file, or (compare) a file written by `suite` (default %(default)s)")  # fmt: skip
    options.add_argument("--roots", nargs="*", type=Path, default=[], metavar="DIR", help="folders of benchmark files")
    options.add_argument("--benchmarks", nargs="*", metavar="NAME", help="only these (default: all of the suite)")
    options.add_argument("--limit", type=COUNT, help="problems per benchmark, a seeded sample (default: all)")
    return options


def _sampling_options() -> Parser:
    from evaluation.generation.generate import CACHE
    from evaluation.generation.templates import TRAINING, template_names

    options = _options()
    options.add_argument(
        "--samples", type=COUNT, help="per problem (default: the k of each benchmark's avg@k; 1 trace)"
    )
    options.add_argument("--temperature", type=number(float, 0), default=0.6, help="0 is greedy (default %(default)s)")
    options.add_argument(
        "--top-p", type=number(float, most=1, above=0), default=0.95, help="nucleus sampling (default %(default)s)"
    )
    options.add_argument("--max-tokens", type=COUNT, default=8192, help="per response (default %(default)s)")
    options.add_argument("--template", choices=template_names(), default=TRAINING, help="prompt template; `training` "
                         "means the checkpoint's own, or else the chat template (default %(default)s)")  # fmt: skip
    options.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="of samples (default %(default)s)")
    options.add_argument("--replicas", type=COUNT, help="engines with GPUs of their own (default: as many as fit)")
    options.add_argument("--tensor-parallel", default="auto", metavar="GPUS", type=_gpus,
                         help="GPUs per engine (default %(default)s: as few as the weights need)")  # fmt: skip
    options.add_argument("--trust-remote-code", action="store_true", help="run code that the model folder contains")
    return options


def _gpus(text: str) -> str:
    if text != "auto" and not (text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r}: expected auto, or a number of GPUs")
    return text


def _mapping(text: str) -> dict[str, Any]:
    from core.parse import parse_yaml

    try:
        value = parse_yaml(text, "--slurm")
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a mapping, such as {{partition: gpu, time: 600}}")
    return SLURM | value


def _grading_options() -> Parser:
    options = _options()
    options.add_argument(
        "--workers", type=COUNT, default=2, help="processes that compare answers (default %(default)s)"
    )
    options.add_argument("--limit-s", type=SECONDS, default=5.0, help="seconds per comparison (default %(default)s)")
    options.add_argument("--thinking", action=argparse.BooleanOptionalAction, help="an answer counts only after "
                         "</think> (default: as the prompt template says)")  # fmt: skip
    options.add_argument("--truncated", choices=("zero", "by_text"), default="zero", help="score of a sample that "
                         "was cut at the token limit: zero, or as its text says (default %(default)s)")  # fmt: skip
    return options


def suite(options: argparse.Namespace) -> None:
    """Write the problems of benchmarks into one suite file."""
    from core.files import write_table
    from evaluation.benchmarks.problems import read_suite
    from evaluation.benchmarks.registry import select_benchmarks

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
    from evaluation.generation.models import open_model
    from evaluation.launch import run_elsewhere
    from evaluation.tables import read_suite_file

    table = read_suite_file(options.suite)
    if options.backend != "local":
        _leave_on_term()  # which ends the job
        settings = {name: getattr(options, name) for name in ("backend", "ray_address", "slurm")}
        with reporter() as report:
            run_elsewhere(options.arguments, options.out, settings, report)
        for name in table["benchmark"].unique().to_pylist():
            if options.benchmarks is None or name in options.benchmarks:
                print(options.out / f"{name}.parquet")
        return
    with _sampling_process(), reporter() as report:
        paths = draw_samples(
            open_model(options.model, checkpoint=options.checkpoint, **_engines(options)),
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
    from dataclasses import replace

    from core.progress import reporter
    from evaluation.generation.budget import Budget
    from evaluation.generation.endpoint import Endpoint
    from evaluation.generation.models import open_model
    from evaluation.generation.traces import draw_traces, read_problems

    problems = read_problems(options.problems, options.problem_column, options.answer_column)
    teacher = open_model(options.teacher, **_engines(options))
    if isinstance(teacher, Endpoint) and options.concurrency:
        teacher = replace(teacher, concurrency=options.concurrency)
    limited = options.budget_tokens is not None or options.budget_money is not None
    limits = (options.budget_tokens, options.budget_money, options.input_price, options.output_price)
    budget = Budget(*limits) if limited else None
    with _sampling_process(), reporter() as report:
        drawn = draw_traces(
            teacher,
            problems,
            options.out,
            sampling=_sampling(options),
            cache=options.cache,
            system_prompt=options.system_prompt,
            budget=budget,
            report=report,
        )
    print(f"{options.out}: {drawn.rows:,} of {drawn.requested:,} traces")
    if budget:
        spent = f"{budget.prompt_tokens + budget.answer_tokens:,} tokens, cost {budget.cost:.4f}"
        end = "" if drawn.rows == drawn.requested else "; the budget ends here: give more, and the same command goes on"
        print(f"spent {spent}{end}")


def difficulty(options: argparse.Namespace) -> None:
    """Measure how often a model solves each problem."""
    from core.files import write_table
    from evaluation.difficulty import histogram_text, measure_difficulty
    from grading.grader import Grader

    with Grader(options.workers, options.limit_s) as grader:
        table = measure_difficulty(options.samples, grader, thinking=options.thinking is not False)
    write_table(table, options.out)
    print(histogram_text(table))
    print(f"{options.out}: {table.num_rows:,} problems")


def grade(options: argparse.Namespace) -> None:
    """Grade samples."""
    from core.files import write_table
    from evaluation.statistics.scores import summarize
    from evaluation.tables import read_folder, read_suite_file
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
    from evaluation.second_grader import disagreements as find_disagreements
    from evaluation.second_grader import disagreements_text
    from evaluation.tables import read_folder

    table = find_disagreements(read_folder(options.results, "graded"), options.second, limit_s=options.limit_s)
    print(disagreements_text(table))
    if options.out:
        write_table(table, options.out)
        print(options.out)


def browse(options: argparse.Namespace) -> None:
    """Write all graded samples on one HTML page, which opens without a network."""
    from evaluation.browse import browse as write_samples
    from evaluation.tables import read_folder

    rows = write_samples(read_folder(options.results, "graded"), options.out)
    print(f"{options.out}: {rows:,} rows")


def compare(options: argparse.Namespace) -> None:
    """Compare models: checkpoints, hub ids or graded results."""
    from evaluation.report.model_comparison import Evaluation, comparison_table, evaluate

    evaluation = Evaluation(
        suite=options.suite,
        roots=tuple(options.roots),
        benchmarks=options.benchmarks,
        limit=options.limit,
        sampling=_sampling(options),
        engines=_engines(options),
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
    from evaluation.benchmarks.registry import suite_entries
    from evaluation.report.inputs import read_funnel, read_lineage, read_metrics
    from evaluation.report.scorecard import build_scorecard
    from evaluation.report.scorecard_html import write_page
    from evaluation.report.scorecard_text import render_markdown, render_text
    from evaluation.tables import read_folder, read_suite_file
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
        funnel=read_funnel(options.funnel) if options.funnel else [],
    )
    write_page(scorecard, options.out)
    if options.markdown:
        write_text(render_markdown(scorecard), options.markdown)
    print(render_text(scorecard))
    print(f"\n{options.out}")


def _sampling(options: argparse.Namespace) -> "Sampling":
    from evaluation.generation.requests import Sampling

    return Sampling(options.samples, options.temperature, options.top_p, options.max_tokens, options.seed)


def _engines(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "template": options.template,
        "replicas": options.replicas,
        "tensor_parallel": None if options.tensor_parallel == "auto" else int(options.tensor_parallel),
        "trust_remote_code": options.trust_remote_code,
    }


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


if __name__ == "__main__":
    sys.exit(main())
