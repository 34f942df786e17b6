"""``python -m pipelines.cli.leaderboard [MODEL …]``: rank every checkpoint that was evaluated; ``make leaderboard``.

Models are evaluated first, on the suite and with the sampling of the profile.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from assets.shared.interpreter import TrainingInterpreter
from assets.shared.storage import Storage
from core.cli import Parser, exit_status
from core.code_digest import PROJECT
from evaluation.__main__ import main as evaluation
from evaluation.command_requests import CompareRequest
from pipelines.cli.run import configure
from pipelines.definitions.settings import Settings, load_settings


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="python -m pipelines.cli.leaderboard", description="Rank every checkpoint that was evaluated.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="model folders or hub ids to evaluate first")
    parser.add_argument("--profile", help="name or file of a profile")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="overrides", help="override a setting"
    )
    options = parser.parse_args(arguments)
    configure(options.profile, options.overrides)
    settings = load_settings()
    results = Storage(root=settings.storage.root).path / "graded"
    if options.models:
        python = TrainingInterpreter(python=settings.interpreter.python).executable()
        with tempfile.TemporaryDirectory() as folder:
            file = comparison(settings, options.models, results).write(Path(folder) / "request.json")
            command = [str(python), "-m", "evaluation", "compare", "--request", str(file)]
            done = subprocess.run(command, cwd=PROJECT, check=False)
        if done.returncode:
            return done.returncode
    return evaluation(["leaderboard", "--results", str(results)])


def comparison(settings: Settings, models: Sequence[str], results: Path) -> CompareRequest:
    """The request that evaluates ``models`` on the suite and with the sampling of the settings."""
    sampling = settings.evaluation.fixed().model_dump(
        include={"samples", "temperature", "top_p", "max_tokens", "template"}
    )
    return CompareRequest(
        models=tuple(models),
        suite=settings.suite.name,
        benchmarks=tuple(settings.suite.only) or None,
        roots=tuple(map(Path, settings.benchmarks.roots)),
        limit=settings.benchmarks.limit,
        out=results,
        **sampling,
    )


if __name__ == "__main__":
    sys.exit(exit_status(main))
