"""``python -m evaluation``: from benchmark problems to a scorecard, without Dagster.

The docstring of each command is its help; `evaluation.commands` does the work.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli import examples, exit_status, new_app, run_app
from core.command_options import options_of, request_of
from core.errors import InputError
from evaluation import commands
from evaluation.command_requests import (
    CompareRequest,
    DifficultyRequest,
    GenerateRequest,
    GradeRequest,
    ReportRequest,
    SuiteRequest,
    TracesRequest,
)

SECOND_GRADERS = {
    "whole-text": "math-verify on everything after the first </think>, the rule of LUFFY's published evaluation",
    "prime": "the sympy grader of PRIME and PRM800K on the extracted answer, from verl (training interpreter)",
}
app = new_app(
    "From benchmark problems to a scorecard, without Dagster. The usual order is suite, generate, grade, report; "
    "`compare` does the first three for several models at once. Every command has --help."
)
Results = Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `grade` wrote.")]
SuiteFile = Annotated[Path, typer.Option(metavar="FILE.parquet", help="File that `suite` wrote.")]
Context = typer.Context


@app.command(epilog=examples("luffy evaluate suite --suite embedded --limit 20 --out suite.parquet"))
@options_of(SuiteRequest)
def suite(context: Context, **given: Any) -> None:
    """Write the problems of benchmarks into one suite file."""
    commands.suite(request_of(SuiteRequest, context, given))


@app.command(
    epilog=examples(
        "luffy evaluate generate --model Qwen/Qwen3-0.6B --suite suite.parquet --out samples",
        "luffy evaluate generate --request samples/request.json",
    )
)
@options_of(GenerateRequest)
def generate(context: Context, **given: Any) -> None:
    """Draw samples with vLLM (in the training interpreter)."""
    commands.generate(request_of(GenerateRequest, context, given))


@app.command(
    epilog=examples(
        "luffy evaluate traces --teacher Qwen/Qwen3-8B --problems problems.jsonl --out traces.parquet",
        "luffy evaluate traces --teacher NAME@http://HOST:8000/v1 --problems problems.jsonl "
        "--budget-tokens 1000000 --out traces.parquet",
    )
)
@options_of(TracesRequest)
def traces(context: Context, **given: Any) -> None:
    """Draw reasoning traces of a teacher, for targets (in the training interpreter)."""
    commands.traces(request_of(TracesRequest, context, given))


@app.command(epilog=examples("luffy evaluate difficulty --samples traces.parquet --out difficulty.parquet"))
@options_of(DifficultyRequest)
def difficulty(context: Context, **given: Any) -> None:
    """Measure how often a model solves each problem."""
    commands.difficulty(request_of(DifficultyRequest, context, given))


@app.command(epilog=examples("luffy evaluate grade --suite suite.parquet --samples samples --out graded"))
@options_of(GradeRequest)
def grade(context: Context, **given: Any) -> None:
    """Grade samples."""
    commands.grade(request_of(GradeRequest, context, given))


@app.command()
def disagreements(
    results: Results,
    second: Annotated[
        str,
        typer.Option(
            metavar="|".join(SECOND_GRADERS),
            help=f"The second grader. {'; '.join(map(': '.join, SECOND_GRADERS.items()))}.",
        ),
    ] = "whole-text",
    limit_s: Annotated[float, typer.Option(help="Seconds allowed for one sample.")] = 5.0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="Also write all of them, with prompt and response.")
    ] = None,
) -> None:
    """List the verdicts with which a second grader disagrees."""
    if second not in SECOND_GRADERS:
        raise InputError(f"--second: got {second!r}, expected one of {', '.join(SECOND_GRADERS)}")
    if not 0 < limit_s < float("inf"):
        raise InputError(f"--limit-s: got {limit_s}, expected a number above 0")
    commands.disagreements(results, second, limit_s, out)


@app.command()
def browse(
    results: Results, out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page to write.")]
) -> None:
    """Write all graded samples on one HTML page, which opens without a network."""
    commands.browse(results, out)


@app.command()
def inspect(
    results: Results,
    suite: SuiteFile,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for one .eval file per benchmark.")],
) -> None:
    """Write graded samples as logs of Inspect, which `inspect view --log-dir DIR` opens."""
    commands.inspect(results, suite, out)


@app.command("lm-eval")
def lm_eval(
    suite: SuiteFile,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the tasks.")],
    samples: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder that `generate` or `grade` wrote. The tasks take its rendered prompts and its sampling; "
            "without it, the messages of the suite.",
        ),
    ] = None,
    thinking: Annotated[
        bool | None,
        typer.Option(help="Count an answer only after </think>. Without it, as the prompt template says."),
    ] = None,
) -> None:
    """Write a suite as tasks of lm-evaluation-harness."""
    commands.lm_eval(suite, samples, out, thinking)


@app.command(
    epilog=examples(
        "luffy evaluate compare Qwen/Qwen3-0.6B Qwen/Qwen3-1.7B --limit 20",
        "luffy evaluate compare graded-base graded-policy",
    )
)
@options_of(CompareRequest)
def compare(context: Context, **given: Any) -> None:
    """Compare models: checkpoints, hub ids or graded results."""
    commands.compare(request_of(CompareRequest, context, given))


@app.command()
def leaderboard(
    results: Annotated[Path, typer.Option(metavar="DIR", help="Folder that is searched for graded results.")] = Path(
        "var/storage/graded"
    ),
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Also write the tables to this file.")
    ] = None,
) -> None:
    """Rank all checkpoints that were graded on the same problems."""
    commands.leaderboard(results, markdown)


@app.command(
    epilog=examples(
        "luffy evaluate recheck results/runs/comparison/hpt-0.zip --suite suite.parquet",
        "luffy evaluate recheck theirs/mine-0.zip --suite suite.parquet --remade var/runs/mine-0.zip",
    )
)
def recheck(
    run: Annotated[Path, typer.Argument(metavar="RUN.zip", help="A recorded run of an experiment.")],
    suite: SuiteFile,
    remade: Annotated[Path | None, typer.Option(metavar="RUN.zip", help="Your own recording of the same run.")] = None,
) -> None:
    """Check a recorded run: grade its responses again, and compare it with your own recording of the same run.

    The exit status is 1 if something differs.
    """
    if commands.recheck(run, suite, remade):
        raise typer.Exit(1)


@app.command(
    epilog=examples("luffy evaluate report --suite suite.parquet --base graded-base --policy graded --out card.html")
)
@options_of(ReportRequest)
def report(context: Context, **given: Any) -> None:
    """Write the scorecard of a base model and a policy."""
    commands.report(request_of(ReportRequest, context, given))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    given = sys.argv[1:] if arguments is None else [str(argument) for argument in arguments]
    return exit_status(lambda: run_app(app, given, "python -m evaluation"))


if __name__ == "__main__":
    sys.exit(main())
