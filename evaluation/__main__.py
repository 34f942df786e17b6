"""``python -m evaluation``: generate samples, grade them, compare models, write the scorecard. Each part has --help."""

import argparse
import atexit
import os
import sys
from collections.abc import Callable
from pathlib import Path

from evaluation.errors import InputError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    options = parser().parse_args(arguments)
    try:
        command: Callable[[argparse.Namespace], None] = options.command
        command(options)
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"error: {error.filename or 'writing the result'}: {error.strerror or error}\n")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m evaluation", description=(__doc__ or "").split(": ", 1)[1])
    commands = result.add_subparsers(required=True, metavar="suite | generate | grade | compare | report")

    suite = commands.add_parser("suite", help="read benchmarks into one parquet file")
    suite.add_argument("--suite", default="embedded", help='"embedded", "paper" or a YAML file (default %(default)s)')
    suite.add_argument("--roots", nargs="*", type=Path, default=[], metavar="DIR", help="folders with benchmark files")
    suite.add_argument("--benchmarks", nargs="*", metavar="NAME", help="only these")
    suite.add_argument("--limit", type=int, help="problems per benchmark (a seeded sample)")
    suite.add_argument("--seed", type=int, default=0)
    suite.add_argument("--system-prompt", metavar="TEXT", help="system message before every problem")
    suite.add_argument("--out", type=Path, required=True, metavar="FILE.parquet")
    suite.set_defaults(command=_suite)

    generate = commands.add_parser("generate", help="draw samples with vLLM (in the training interpreter)")
    generate.add_argument("--model", type=Path, required=True, metavar="DIR", help="Hugging Face folder")
    generate.add_argument("--suite", type=Path, required=True, metavar="FILE.parquet", help="from `suite`")
    generate.add_argument("--benchmarks", nargs="*", metavar="NAME", help="only these (default: all of the suite)")
    generate.add_argument("--out", type=Path, required=True, metavar="DIR", help="for <benchmark>.parquet")
    generate.add_argument("--samples", type=int, help="per problem (default: the k of each benchmark's avg@k)")
    generate.add_argument("--temperature", type=float, default=0.6, help="0 is greedy (default %(default)s)")
    generate.add_argument("--top-p", type=float, default=0.95, help="(default %(default)s)")
    generate.add_argument("--max-tokens", type=int, default=8192, help="per response (default %(default)s)")
    generate.add_argument("--seed", type=int, default=0)
    generate.add_argument("--checkpoint", metavar="DIGEST", help="names the model (default: of lineage.json or files)")
    generate.add_argument("--trust-remote-code", action="store_true", help="run code that the model folder brings")
    generate.set_defaults(command=_generate)

    grade = commands.add_parser("grade", help="grade samples")
    grade.add_argument("--suite", type=Path, required=True, metavar="FILE.parquet")
    grade.add_argument("--samples", type=Path, required=True, metavar="DIR", help="from `generate`")
    grade.add_argument("--out", type=Path, required=True, metavar="DIR", help="for <benchmark>.parquet with verdicts")
    grade.add_argument("--workers", type=int, default=2, help="comparison processes (default %(default)s)")
    grade.add_argument("--limit-s", type=float, default=5.0, help="seconds for one comparison (default %(default)s)")
    grade.add_argument("--no-thinking", action="store_true", help="responses need no </think> before the answer")
    grade.set_defaults(command=_grade)

    compare = commands.add_parser("compare", help="compare graded results with the first of them")
    compare.add_argument("results", nargs="+", type=Path, metavar="DIR", help="from `grade`; the first is the baseline")
    compare.set_defaults(command=_compare)

    report = commands.add_parser("report", help="write the scorecard of a base model and a policy")
    report.add_argument("--suite", type=Path, required=True, metavar="FILE.parquet")
    report.add_argument("--base", type=Path, required=True, metavar="DIR", help="from `grade`")
    report.add_argument("--policy", type=Path, required=True, metavar="DIR", help="from `grade`")
    report.add_argument("--lineage", type=Path, metavar="JSON", help="the policy's lineage.json")
    report.add_argument("--metrics", type=Path, metavar="JSONL", help="the training run's metrics.jsonl")
    report.add_argument(
        "--funnel", type=Path, metavar="JSON", help="preparation of the targets: [[stage, rows left], …]"
    )
    report.add_argument("--out", type=Path, required=True, metavar="FILE.html")
    report.add_argument("--markdown", type=Path, metavar="FILE.md")
    report.set_defaults(command=_report)
    return result


def _suite(options: argparse.Namespace) -> None:
    from evaluation.benchmarks import load_suite, read_suite
    from evaluation.files import write_table

    benchmarks = load_suite(options.suite)
    known = [benchmark.name for benchmark in benchmarks]
    if unknown := [name for name in options.benchmarks or [] if name not in known]:
        raise InputError(f"benchmark {', '.join(unknown)}: not in suite {options.suite}, which has {', '.join(known)}")
    chosen = [b for b in benchmarks if not options.benchmarks or b.name in options.benchmarks]
    table = read_suite(
        chosen, options.roots, limit=options.limit, seed=options.seed, system_prompt=options.system_prompt
    )
    write_table(table, options.out)
    print(f"{options.out}: {table.num_rows} problems of {', '.join(b.name for b in chosen)}")


def _generate(options: argparse.Namespace) -> None:
    from evaluation.generate import Sampling, generate
    from evaluation.progress import reporter
    from evaluation.tables import read_suite_file

    sampling = Sampling(options.samples, options.temperature, options.top_p, options.max_tokens, options.seed)
    suite = read_suite_file(options.suite)
    with reporter() as report:
        written = generate(
            options.model,
            suite,
            options.out,
            benchmarks=options.benchmarks,
            sampling=sampling,
            checkpoint=options.checkpoint,
            trust_remote_code=options.trust_remote_code,
            report=report,
        )
    for path in written.values():
        print(path)
    atexit.register(_quiet_teardown)


def _quiet_teardown() -> None:
    """After a success, drop libtriton's leak report at interpreter exit (as Triton does for its own workers)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _grade(options: argparse.Namespace) -> None:
    from evaluation.files import write_table
    from evaluation.grading import Grader, grade_table
    from evaluation.statistics import summarize
    from evaluation.tables import read_folder, read_suite_file

    suite = read_suite_file(options.suite)
    with Grader(options.workers, options.limit_s) as grader:
        for name, samples in read_folder(options.samples, "samples").items():
            graded = grade_table(samples, suite, grader, thinking=not options.no_thinking)
            write_table(graded, options.out / f"{name}.parquet")
            print(f"{name}: {summarize(graded).to_text()}")


def _compare(options: argparse.Namespace) -> None:
    from evaluation.compare import comparison_text
    from evaluation.tables import read_folder

    print(comparison_text({str(folder): read_folder(folder, "graded") for folder in options.results}))


def _report(options: argparse.Namespace) -> None:
    from evaluation.benchmarks import suite_entries
    from evaluation.files import atomic_write
    from evaluation.report import build_scorecard
    from evaluation.tables import read_folder, read_json, read_json_lines, read_suite_file

    scorecard = build_scorecard(
        read_folder(options.base, "graded"),
        read_folder(options.policy, "graded"),
        suite=suite_entries(read_suite_file(options.suite)),
        lineage=read_json(options.lineage) if options.lineage else {},
        training_metrics=read_json_lines(options.metrics) if options.metrics else [],
        funnel=read_json(options.funnel) if options.funnel else [],
    )
    scorecard.write_html(options.out)
    if options.markdown:
        with atomic_write(options.markdown) as temporary:
            temporary.write_text(scorecard.to_markdown(), encoding="utf-8")
    print(scorecard.to_text())
    print(f"\n{options.out}")


if __name__ == "__main__":
    sys.exit(main())
