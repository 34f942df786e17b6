"""``luffy leaderboard`` ranks every checkpoint that was evaluated.

Models are evaluated first, on the suite and with the sampling of the profile.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.storage import Storage
from core import PROJECT
from core.errors import InputError
from core.files import write_json
from evaluation.command_requests import CompareRequest
from evaluation.report.leaderboard import leaderboard_text, rank_folder
from pipelines.settings import Settings, load


def rank(models: Sequence[str], profile: str | None, overrides: Sequence[str]) -> int:
    """Evaluate ``models``, rank every checkpoint that was evaluated, and return the exit status."""
    if graded := [model for model in models if any(Path(model).glob("*.parquet"))]:
        raise InputError(
            f"{graded[0]}: a folder of graded results; expected models to evaluate: rank the results by luffy evaluate "
            f"leaderboard --results {graded[0]}"
        )
    settings = load(profile, overrides)
    results = Storage(root=settings.storage.root).path / "graded"
    if models:
        python = TrainingInterpreter(python=settings.interpreter.python).executable()
        with tempfile.TemporaryDirectory() as folder:
            file = comparison(settings, models, results, Path(folder)).write(Path(folder) / "request.json")
            command = [python, "-m", "evaluation", "compare", "--request", file]
            done = subprocess.run(command, cwd=PROJECT, check=False)
        if done.returncode:
            return done.returncode
    sys.stdout.write(f"{leaderboard_text(rank_folder(results))}\n")
    return 0


def comparison(settings: Settings, models: Sequence[str], results: Path, folder: Path) -> CompareRequest:
    """Build the request that evaluates ``models`` as the settings say, on the benchmarks in ``folder``."""
    suite = folder / "suite.yaml"
    write_json({"benchmarks": [entry.model_dump(mode="json") for entry in settings.suite.entries()]}, suite)
    sampling = settings.evaluation.fixed().model_dump(
        include={"samples", "temperature", "top_p", "max_tokens", "template"}
    )
    return CompareRequest(
        models=tuple(models),
        suite=str(suite),
        roots=tuple(root for root in settings.benchmarks.folders if root.is_dir()),
        limit=settings.benchmarks.limit,
        out=results,
        **sampling,
    )
