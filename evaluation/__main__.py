"""``python -m evaluation``: generate samples, grade them, compare models, write the scorecard. Each part has --help."""

import argparse
import atexit
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from core.cli import exit_status

SECOND_GRADERS = {
    "whole-text": "math-verify on all that follows the first </think>, as LUFFY's evaluation has it",
    "prime": "the sympy grader of PRIME and PRM800K on the extracted answer, from verl (training interpreter)",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    options = parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = options.command
    return exit_status(lambda: command(options))


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m evaluation", description=(__doc__ or "").split(": ", 1)[1])
    commands = result.add_subparsers(required=True, metavar="suite | generate | grade | …")

    suite = commands.add_parser("suite", help="read benchmarks into one parquet file")
    suite.add_argument(
        "--suite", default="embedded", help="one of evaluation/benchmarks/suites, or a YAML file (default %(default)s)"
    )
    suite.add_argument("--roots", nargs="*", type=Path, default=[], metavar="DIR", help="folders with benchmark files")
    suite.add_argument("--benchmarks", nargs="*", metavar="NAME", help="only these")
    suite.add_argument("--limit", type=int, help="problems per benchmark (a seeded sample)")
    suite.add_argument("--seed", type=int, default=0)
    suite.add_argument("--system-prompt", metavar="TEXT", help="system message before every problem")
    suite.add_argument("--out", type=Path, required=True, metavar="FILE.parquet")
    suite.set_defaults(command=_suite)

    generate = commands.add_parser("generate", help="draw samples with vLLM (in the training interpreter)")
    generate.add_argument("--model", required=True, metavar="DIR|ID", help="Hugging Face folder or hub id[@revision]")
    generate.add_argument("--suite", type=Path, required=True, metavar="FILE.parquet", help="from `suite`")
    generate.add_argument("--benchmarks", nargs="*", metavar="NAME", help="only these (default: all of the suite)")
    generate.add_argument("--out", type=Path, required=True, metavar="DIR", help="for <benchmark>.parquet")
    _add_sampling(generate)
    generate.add_argument("--seed", type=int, default=0)
    generate.add_argument("--checkpoint", metavar="DIGEST", help="names the model (default: of lineage.json or files)")
    generate.set_defaults(command=_generate)

    grade = commands.add_parser("grade", help="grade samples")
    grade.add_argument("--suite", type=Path, required=True, metavar="FILE.parquet")
    grade.add_argument("--samples", type=Path, required=True, metavar="DIR", help="from `generate`")
    grade.add_argument("--out", type=Path, required=True, metavar="DIR", help="for <benchmark>.parquet with verdicts")
    _add_grading(grade)
    grade.set_defaults(command=_grade)

    disagreements = commands.add_parser("disagreements", help="list the verdicts that a second grader does not share")
    disagreements.add_argument("results", type=Path, metavar="DIR", help="from `grade`")
    disagreements.add_argument(
        "--second", choices=SECOND_GRADERS, default="whole-text", help="; ".join(map(": ".join, SECOND_GRADERS.items()))
    )
    disagreements.add_argument("--limit-s", type=float, default=5.0, help="seconds for one sample")
    disagreements.add_argument("--out", type=Path, metavar="FILE.parquet", help="all of them with prompt and response")
    disagreements.set_defaults(command=_disagreements)

    compare = commands.add_parser("compare", help="compare models: checkpoints, hub ids or stored results")
    compare.add_argument(
        "models", nargs="+", metavar="A", help="model folder, hub id[@revision], or folder from `grade`; the first is "
        "what the others are compared with"
    )  # fmt: skip
    compare.add_argument(
        "--suite", default="embedded", help="one of evaluation/benchmarks/suites, a YAML file, or one from `suite`"
    )
    compare.add_argument("--roots", nargs="*", type=Path, default=[], metavar="DIR", help="folders with its files")
    compare.add_argument("--benchmarks", nargs="*", metavar="NAME", help="only these")
    compare.add_argument("--limit", type=int, help="problems per benchmark (a seeded sample)")
    compare.add_argument("--seed", type=int, default=0)
    compare.add_argument("--pass-at", type=int, metavar="K", help="also pass@K; every problem needs K stored samples")
    compare.add_argument("--out", type=Path, metavar="DIR", help="keep each model's graded results below this folder")
    _add_sampling(compare)
    _add_grading(compare)
    compare.set_defaults(command=_compare)

    leaderboard = commands.add_parser("leaderboard", help="rank every checkpoint that was graded on the same problems")
    leaderboard.add_argument(
        "--results", type=Path, default=Path("var/storage/graded"), metavar="DIR", help="searched (default %(default)s)"
    )
    leaderboard.add_argument("--markdown", type=Path, metavar="FILE.md")
    leaderboard.set_defaults(command=_leaderboard)

    report = commands.add_parser("report", help="write the scorecard of a base model and a policy")
    report.add_argument("--suite", type=Path, required=True, metavar="FILE.parquet")
    report.add_argument("--base", type=Path, required=True, metavar="DIR", help="from `grade`")
    report.add_argument("--policy", type=Path, required=True, metavar="DIR", help="from `grade`")
    report.add_argument("--champion", type=Path, metavar="DIR", help="graded results of the champion, for comparison")
    report.add_argument("--targets", type=Path, metavar="FILE.parquet", help="what the policy was trained on: looked "
                        "through for problems of the suite (default: the file that --lineage names)")  # fmt: skip
    report.add_argument("--lineage", type=Path, metavar="JSON", help="the policy's lineage.json")
    report.add_argument("--metrics", type=Path, metavar="JSONL", help="the training run's metrics.jsonl")
    report.add_argument(
        "--funnel", type=Path, metavar="JSON", help="preparation of the targets: [[stage, rows left], …]"
    )
    report.add_argument("--out", type=Path, required=True, metavar="FILE.html")
    report.add_argument("--markdown", type=Path, metavar="FILE.md")
    report.set_defaults(command=_report)
    return result


def _add_sampling(command: argparse.ArgumentParser) -> None:
    from evaluation.generation.generate import CACHE
    from evaluation.generation.templates import TRAINING, template_names

    command.add_argument("--samples", type=int, help="per problem (default: the k of each benchmark's avg@k)")
    command.add_argument("--temperature", type=float, default=0.6, help="0 is greedy (default %(default)s)")
    command.add_argument("--top-p", type=float, default=0.95, help="(default %(default)s)")
    command.add_argument("--max-tokens", type=int, default=8192, help="per response (default %(default)s)")
    command.add_argument(
        "--template", choices=template_names(), default=TRAINING, help="of the prompt (default: the one the checkpoint "
        "was trained with, else the tokenizer's own)"
    )  # fmt: skip
    command.add_argument(
        "--cache", type=Path, default=CACHE, metavar="DIR", help="of drawn samples (default %(default)s)"
    )
    command.add_argument("--replicas", type=int, help="engines, each on a GPU of its own (default: all GPUs)")
    command.add_argument("--trust-remote-code", action="store_true", help="run code that the model folder brings")


def _add_grading(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workers", type=int, default=2, help="comparison processes (default %(default)s)")
    command.add_argument("--limit-s", type=float, default=5.0, help="seconds for one comparison (default %(default)s)")
    command.add_argument(
        "--thinking", action=argparse.BooleanOptionalAction, help="an answer counts only after </think> (default: as "
        "the template of the samples says)"
    )  # fmt: skip


def _suite(options: argparse.Namespace) -> None:
    from core.files import write_table
    from evaluation.benchmarks.problems import read_suite
    from evaluation.benchmarks.registry import select_benchmarks

    chosen = select_benchmarks(options.suite, options.benchmarks)
    table = read_suite(
        chosen, options.roots, limit=options.limit, seed=options.seed, system_prompt=options.system_prompt
    )
    write_table(table, options.out)
    print(f"{options.out}: {table.num_rows} problems of {', '.join(b.name for b in chosen)}")


def _generate(options: argparse.Namespace) -> None:
    from core.progress import reporter
    from evaluation.generation.generate import Sampling, generate
    from evaluation.generation.models import resolve_model
    from evaluation.tables import read_suite_file

    sampling = Sampling(options.samples, options.temperature, options.top_p, options.max_tokens, options.seed)
    suite = read_suite_file(options.suite)
    signal.signal(signal.SIGTERM, _interrupted)
    with reporter() as report:
        written = generate(
            resolve_model(options.model),
            suite,
            options.out,
            benchmarks=options.benchmarks,
            sampling=sampling,
            template=options.template,
            checkpoint=options.checkpoint,
            cache=options.cache,
            replicas=options.replicas,
            trust_remote_code=options.trust_remote_code,
            report=report,
        )
    for path in written.values():
        print(path)
    atexit.register(_quiet_teardown)


def _interrupted(number: int, _frame: object) -> None:
    """Leave by way of every `finally`, so that drawn samples are kept."""
    sys.exit(128 + number)


def _quiet_teardown() -> None:
    """After a success, drop libtriton's leak report at interpreter exit (as Triton does for its own workers)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _grade(options: argparse.Namespace) -> None:
    from core.files import write_table
    from evaluation.statistics.scores import summarize
    from evaluation.tables import read_folder, read_suite_file
    from grading.grader import Grader, grade_table

    suite = read_suite_file(options.suite)
    with Grader(options.workers, options.limit_s) as grader:
        for name, samples in read_folder(options.samples, "samples").items():
            graded = grade_table(samples, suite, grader, thinking=options.thinking)
            write_table(graded, options.out / f"{name}.parquet")
            print(f"{name}: {summarize(graded).to_text()}")


def _disagreements(options: argparse.Namespace) -> None:
    from core.files import write_table
    from evaluation.second_grader import disagreements, disagreements_text
    from evaluation.tables import read_folder

    found = disagreements(read_folder(options.results, "graded"), options.second, limit_s=options.limit_s)
    print(disagreements_text(found))
    if options.out:
        write_table(found, options.out)
        print(options.out)


def _compare(options: argparse.Namespace) -> None:
    from evaluation.generation.generate import Sampling
    from evaluation.report.model_comparison import Evaluation, comparison_table, evaluate

    sampling = Sampling(options.samples, options.temperature, options.top_p, options.max_tokens, options.seed)
    how = Evaluation(
        suite=options.suite,
        roots=tuple(options.roots),
        benchmarks=options.benchmarks,
        limit=options.limit,
        sampling=sampling,
        template=options.template,
        cache=options.cache,
        replicas=options.replicas,
        trust_remote_code=options.trust_remote_code,
        workers=options.workers,
        limit_s=options.limit_s,
        thinking=options.thinking,
    )
    signal.signal(signal.SIGTERM, _interrupted)
    print(comparison_table(evaluate(options.models, how, options.out), pass_at=options.pass_at).to_text())
    atexit.register(_quiet_teardown)


def _leaderboard(options: argparse.Namespace) -> None:
    from core.files import atomic_write
    from evaluation.report.leaderboard import leaderboard_markdown, leaderboard_text, rank_folder

    rankings = rank_folder(options.results)
    print(leaderboard_text(rankings))
    if options.markdown:
        with atomic_write(options.markdown) as temporary:
            temporary.write_text(leaderboard_markdown(rankings), encoding="utf-8")
        print(f"\n{options.markdown}")


def _report(options: argparse.Namespace) -> None:
    from core.files import atomic_write, read_json, read_json_lines
    from evaluation.benchmarks.registry import suite_entries
    from evaluation.report.scorecard import build_scorecard
    from evaluation.report.scorecard_html import write_page
    from evaluation.report.scorecard_text import render_markdown, render_text
    from evaluation.tables import read_folder, read_suite_file
    from grading.contamination import search_lineage, search_targets

    suite = read_suite_file(options.suite)
    lineage = read_json(options.lineage) if options.lineage else {}
    scorecard = build_scorecard(
        read_folder(options.base, "graded"),
        read_folder(options.policy, "graded"),
        suite=suite_entries(suite),
        champion=read_folder(options.champion, "graded") if options.champion else None,
        contamination=search_targets(options.targets, suite) if options.targets else search_lineage(lineage, suite),
        lineage=lineage,
        training_metrics=read_json_lines(options.metrics) if options.metrics else [],
        funnel=read_json(options.funnel) if options.funnel else [],
    )
    write_page(scorecard, options.out)
    if options.markdown:
        with atomic_write(options.markdown) as temporary:
            temporary.write_text(render_markdown(scorecard), encoding="utf-8")
    print(render_text(scorecard))
    print(f"\n{options.out}")


if __name__ == "__main__":
    sys.exit(main())
