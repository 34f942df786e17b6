"""``python -m evaluation``: from benchmark problems to a scorecard, without Dagster.

The docstring of each command is its help; `evaluation.commands` does the work of those that take a request.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from core.cli import examples, exit_status, new_app, run_app, say
from core.command_options import add_request_command
from core.machine.request_paths import check_output, writable_file, writable_folder
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

app = new_app(
    "From benchmark problems to a scorecard, without Dagster. The usual order is suite, generate, grade, report; "
    "`compare` does the first three for several models at once. Every command has --help.",
    epilog=examples("luffy evaluate compare Qwen/Qwen3-0.6B Qwen/Qwen3-1.7B --limit 20", "luffy evaluate leaderboard"),
)
Results = Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `grade` wrote.")]
SuiteFile = Annotated[Path, typer.Option(metavar="FILE.parquet", help="File that `suite` wrote.")]


add_request_command(
    app, SuiteRequest, commands.suite, "luffy evaluate suite --suite embedded --limit 20 --out suite.parquet"
)
add_request_command(
    app,
    GenerateRequest,
    commands.generate,
    "luffy evaluate generate --model Qwen/Qwen3-0.6B --suite suite.parquet --out samples",
    "luffy evaluate generate --request samples/request.json",
)
add_request_command(
    app,
    TracesRequest,
    commands.traces,
    "luffy evaluate traces --teacher Qwen/Qwen3-8B --problems problems.jsonl --out traces.parquet",
    "luffy evaluate traces --teacher NAME@http://HOST:8000/v1 --problems problems.jsonl "
    "--budget-tokens 1000000 --out traces.parquet",
)
add_request_command(
    app,
    DifficultyRequest,
    commands.difficulty,
    "luffy evaluate difficulty --samples traces.parquet --out difficulty.parquet",
)
add_request_command(
    app, GradeRequest, commands.grade, "luffy evaluate grade --suite suite.parquet --samples samples --out graded"
)


@app.command()
def browse(
    results: Results, out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page to write.")]
) -> None:
    """Write all graded samples to one HTML page that opens offline."""
    check_output(writable_file(out), results)
    from evaluation.report.sample_browser import browse as write_samples
    from evaluation.sample_tables import read_folder

    rows = write_samples(read_folder(results, "graded"), out)
    say(f"{out}: {rows:,} rows")


@app.command()
def inspect(
    results: Results,
    suite: SuiteFile,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for one .eval file per benchmark.")],
) -> None:
    """Write graded samples as logs of Inspect, which `inspect view --log-dir DIR` opens."""
    writable_folder(out)
    from datetime import UTC, datetime

    from evaluation.export.inspect_log import write_logs
    from evaluation.sample_tables import read_folder, read_suite_file

    tables = read_folder(results, "graded")
    newest = max((results / f"{name}.parquet").stat().st_mtime for name in tables)
    graded = datetime.fromtimestamp(newest, UTC)
    for path in write_logs(tables, read_suite_file(suite), out, graded=graded):
        say(path)


@app.command("lm-eval")
def lm_eval(
    suite: SuiteFile,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the tasks.")],
    samples: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder that `generate` or `grade` wrote. The tasks use its sampling and its rendered prompts, "
            "which samples of an endpoint do not have. Default: the messages of the suite.",
        ),
    ] = None,
    thinking: Annotated[
        bool | None,
        typer.Option(help="Count an answer only after </think>. Default: the prompt template decides."),
    ] = None,
) -> None:
    """Write a suite as tasks of lm-evaluation-harness."""
    writable_folder(out)
    from core import PROJECT
    from core.model.prompts import PromptRecord
    from evaluation.export.lm_eval import write_tasks
    from evaluation.sample_tables import read_folder, read_suite_file

    sampled = read_folder(samples, "samples") if samples else None
    names = write_tasks(read_suite_file(suite), out, sampled=sampled, thinking=thinking)
    rendered = sampled and not any(PromptRecord.of(table).is_messages for table in sampled.values())
    template = "" if rendered else " --apply_chat_template"
    say(f"{out}: {', '.join(names)}")
    say(f"PYTHONPATH={PROJECT} lm_eval --include_path {out} --tasks luffy{template} --model …")


add_request_command(
    app,
    CompareRequest,
    commands.compare,
    "luffy evaluate compare Qwen/Qwen3-0.6B Qwen/Qwen3-1.7B --limit 20",
    "luffy evaluate compare graded-base graded-policy",
)


@app.command()
def leaderboard(
    results: Annotated[Path, typer.Option(metavar="DIR", help="Folder to search for graded results.")] = Path(
        "var/storage/graded"
    ),
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Also write the tables to this file.")
    ] = None,
) -> None:
    """Rank all checkpoints that were graded on the same problems."""
    if markdown:
        check_output(writable_file(markdown), results)
    from core.files import write_text
    from evaluation.report.leaderboard import leaderboard_markdown, leaderboard_text, rank_folder

    rankings = rank_folder(results)
    say(leaderboard_text(rankings))
    if markdown:
        write_text(leaderboard_markdown(rankings), markdown)
        say(f"\n{markdown}")


add_request_command(
    app,
    ReportRequest,
    commands.report,
    "luffy evaluate report --suite suite.parquet --base graded-base --policy graded --out card.html",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    given = sys.argv[1:] if arguments is None else [str(argument) for argument in arguments]
    return exit_status(lambda: run_app(app, given, "python -m evaluation"))


if __name__ == "__main__":
    sys.exit(main())
