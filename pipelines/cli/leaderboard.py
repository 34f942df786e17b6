"""``python -m pipelines.cli.leaderboard [MODEL …]``: rank every checkpoint that was evaluated; ``make leaderboard``.

Models are evaluated first, on the suite and with the sampling of the profile.
"""

import subprocess
import sys

from assets.shared.interpreter import TrainingInterpreter
from assets.shared.storage import Storage
from core.cli import Parser, exit_status
from core.code_digest import PROJECT
from evaluation.__main__ import main as evaluation
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
    results = str(Storage(root=settings.storage.root).path / "graded")
    if options.models:
        python = TrainingInterpreter(python=settings.interpreter.python).executable()
        command = [str(python), "-m", "evaluation", "compare", *options.models, *compare_options(settings)]
        done = subprocess.run([*command, "--out", results], cwd=PROJECT, check=False)
        if done.returncode:
            return done.returncode
    return evaluation(["leaderboard", "--results", results])


def compare_options(settings: Settings) -> list[str]:
    """The options of ``python -m evaluation compare`` that ``settings`` stand for."""
    sampling = settings.evaluation
    options: dict[str, list[object]] = {
        "--suite": [settings.suite.name],
        "--benchmarks": list(settings.suite.only),
        "--roots": list(settings.benchmarks.roots),
        "--limit": [settings.benchmarks.limit],
        "--samples": [sampling.samples],
        "--temperature": [sampling.temperature],
        "--top-p": [sampling.top_p],
        "--max-tokens": [sampling.max_tokens],
        "--template": [sampling.template],
    }
    given = {name: values for name, values in options.items() if values and values != [None]}
    return [str(part) for name, values in given.items() for part in (name, *values)]


if __name__ == "__main__":
    sys.exit(exit_status(main))
