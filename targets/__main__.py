"""``python -m targets``, which is also ``luffy targets``: prepare targets without Dagster, or look at some."""

import sys
from collections.abc import Sequence

from core.cli import exit_status, run_app
from core.commands import application
from targets.commands import COMMANDS, Prepare

app = application(
    "Turn raw traces into training targets: filter, verify and deduplicate them, and say why every other trace is "
    "rejected. Without a COMMAND, the options below start a preparation.",
    COMMANDS,
    Prepare,
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_app(app, sys.argv[1:] if arguments is None else arguments, "python -m targets")


if __name__ == "__main__":
    sys.exit(exit_status(main))
