"""``python -m evaluation``: from benchmark problems to a scorecard, without Dagster."""

import sys
from collections.abc import Sequence

from core.cli import examples, exit_status, run_app
from core.commands import application
from evaluation.commands import COMMANDS

app = application(
    "From benchmark problems to a scorecard, without Dagster. The usual order is suite, generate, grade, report; "
    "`compare` does the first three for several models at once. Every command has --help.",
    COMMANDS,
    epilog=examples("luffy evaluate compare Qwen/Qwen3-0.6B Qwen/Qwen3-1.7B --limit 20", "luffy evaluate leaderboard"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    given = sys.argv[1:] if arguments is None else [str(argument) for argument in arguments]
    return exit_status(lambda: run_app(app, given, "python -m evaluation"))


if __name__ == "__main__":
    sys.exit(main())
