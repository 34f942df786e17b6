"""What programs above the product may use of it: settings, runs, what a run has recorded, and the parts of reports.

A run is the command ``luffy run``, so it behaves as for a user. `research` imports nothing else of the packages below,
except `core` and the formulas.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core import PROJECT
from core.errors import TaskFailed
from core.machine.interruptible import INTERRUPTED
from core.plugins.user_code import python_path
from evaluation.benchmarks.suite import GROUPS, Benchmark
from evaluation.promotion.answer_counts import BUDGET, FIRST, FIRST_OOD, doubled
from evaluation.promotion.match import can_be_shown, log_evidence, log_wealths
from evaluation.promotion.promotion_rules import Z90
from evaluation.promotion.records import PACE
from evaluation.report.charts import LIGHT, Line, curves
from evaluation.report.figures import Records, metric_curves, points
from evaluation.report.html_page import figure, render
from evaluation.report.table import Cell, Kind, Table, change, p_value, percent, score
from evaluation.sample_tables import (
    grading_record,
    problem_digests,
    read_folder,
    read_scores,
    read_suite_file,
    recorded,
)
from evaluation.statistics.benchmark_scores import problem_scores, summarize
from evaluation.statistics.intervals import Z95, agresti_min, effective_size, mean_and_error, quantile, wilson
from evaluation.statistics.paired import RESAMPLES
from grading import whole_text
from grading.answers.extraction import text_after_thoughts
from grading.pool import WorkerPool
from grading.verdict import Verdict
from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Item
from grading.worker_program import Reply, serve

if TYPE_CHECKING:
    import dagster as dg
    import pyarrow as pa

    from pipelines.settings import Settings


@dataclass(frozen=True)
class Inputs:
    """What a training and its scores start from: digests of targets and base model, and the file of the problems."""

    targets: str
    base: str
    suite: Path


@dataclass(frozen=True)
class Scored:
    """The recorded tables of a model: GRADED by benchmark, the digests of the problems, and what a training left."""

    tables: "Mapping[str, pa.Table]"
    problems: Mapping[str, str]
    policy: Path | None = None  # its folder
    metrics: Path | None = None  # file of the step metrics


def load(profile: str, sets: Sequence[str] = ()) -> "Settings":
    """Return the settings of a profile with ``sets``, each ``SECTION.KEY=VALUE``; InputError for a wrong one."""
    from pipelines.settings import load as load_settings

    return load_settings(profile, sets)


def run(profile: str, sets: Sequence[str], select: str, home: Path) -> int:
    """Materialize a selection of assets by ``luffy run`` and return its exit status.

    Args:
        profile: Name or file of a profile.
        sets: Settings, each ``SECTION.KEY=VALUE``.
        select: A selection of assets, as in ``luffy run --select``.
        home: Folder of the Dagster instance that records the run.
    """
    changes = [part for text in sets for part in ("--set", text)]
    command = ["-m", "pipelines.cli.luffy", "run", "--profile", profile, "--select", select, *changes]
    environment = {**os.environ, "DAGSTER_HOME": str(home), "PYTHONPATH": python_path()}
    home.mkdir(parents=True, exist_ok=True)
    here = home if Path.cwd() == PROJECT else None  # so that relative paths of the project stay as they are
    process = subprocess.Popen([sys.executable, "-P", *command], env=environment, cwd=here)
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:  # the command got it, too, and ends by itself
            continue
        return INTERRUPTED if status == -signal.SIGINT else status


def luffy(*arguments: object) -> str:
    """Run a command of ``luffy`` and return its standard output; TaskFailed with the end of its errors if it fails."""
    command = [sys.executable, "-P", "-m", "pipelines.cli.luffy", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TaskFailed(f"{' '.join(command[4:])} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def inputs(settings: "Settings") -> Inputs:
    """Return the inputs that lie in the storage of ``settings``; InputError if one was not materialized."""
    from assets.benchmarks import KEY as SUITE
    from assets.models import KEY as BASE
    from assets.shared.references import Reference, SuiteReference
    from assets.shared.storage import Storage
    from assets.targets import TRAIN

    storage = Storage(root=settings.storage.root)
    targets = storage.read_reference(TRAIN.to_user_string(), Reference)
    base = storage.read_reference(BASE.to_user_string(), Reference)
    suite = storage.read_reference(SUITE.to_user_string(), SuiteReference)
    return Inputs(targets.digest, base.digest, Path(suite.path))


def scored(settings: "Settings", role: str = "policy") -> Scored:
    """Return the tables of the last run in the storage of ``settings``, of the ``role`` policy or base."""
    from assets.evals.scores import key
    from assets.shared.references import PolicyReference, ScoresReference
    from assets.shared.storage import Storage
    from assets.training import POLICY

    storage = Storage(root=settings.storage.root)
    scores = {
        benchmark.name: storage.read_reference(key(benchmark, role).to_user_string(), ScoresReference)
        for benchmark in settings.suite.entries()
    }
    tables = read_scores({name: reference.path for name, reference in scores.items()})
    problems = {name: reference.problems for name, reference in scores.items()}
    if role != "policy":
        return Scored(tables, problems)
    policy = storage.read_reference(POLICY.to_user_string(), PolicyReference)
    return Scored(tables, problems, Path(policy.path), Path(policy.metrics))


def luffy_definitions(profile: str | Path = "embedded", **options: Any) -> "dg.Definitions":
    """Build the definitions of a profile, as `pipelines.embedding.luffy_definitions` describes."""
    from pipelines.embedding import luffy_definitions as build

    return build(profile, **options)
