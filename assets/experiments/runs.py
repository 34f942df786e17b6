"""The runs of experiments, one partition per recipe and seed: where they are recorded, which of them are comparable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals.scores import key as base_scores
from assets.models import KEY as BASE
from assets.shared.experiment_options import RECIPE, SEED, ExperimentOptions, recipe_and_seed, training_of
from assets.shared.references import (
    ExperimentReference,
    ModelReference,
    ScoresReference,
    SuiteReference,
    TrainReference,
)
from assets.shared.stage_options import TrainingOptions
from assets.shared.storage import Storage
from assets.targets import TRAIN
from core import PROJECT
from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.metric_table import MEMORY
from core.model.lineage_file import Manifest, read_manifest
from core.plugins.config_files import recipe_name
from evaluation.benchmarks.suite import Benchmark
from evaluation.recorded_run import RecordedRun, read_run

SCORES = dg.AssetKey(["experiments", "scores"])


def partition(recipe: str, seed: int) -> dg.MultiPartitionKey:
    """Return the name of the partition of one run."""
    return dg.MultiPartitionKey({RECIPE: recipe, SEED: str(seed)})


def partitions(options: ExperimentOptions, training: TrainingOptions) -> dg.MultiPartitionsDefinition:
    """Return the partitions of an experiment: one per recipe and seed."""
    return dg.MultiPartitionsDefinition(
        {
            RECIPE: dg.StaticPartitionsDefinition(options.names()),
            SEED: dg.StaticPartitionsDefinition([str(seed) for seed in seeds(options, training)]),
        }
    )


def seeds(options: ExperimentOptions, training: TrainingOptions) -> list[int]:
    """Return the seeds of the recipe with the most seeds."""
    return [training.seed + number for number in range(options.most_seeds())]


def recorded_file(options: ExperimentOptions, key: dg.MultiPartitionKey) -> Path | None:
    """Return the file that records the run of a partition; None unless the profile names a folder for runs."""
    if options.runs is None:
        return None
    folder = PROJECT / Path(options.runs).expanduser()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"experiments.runs: {folder} is a file; expected a folder")
    name, seed = recipe_and_seed(key)
    return folder / f"{name}-{seed}.zip"


@dataclass(frozen=True)
class Inputs:
    """The inputs that all runs of a comparison share: digests of the targets, the base model and the problems."""

    train: str
    base: str
    problems: Mapping[str, str]  # by benchmark

    @classmethod
    def present(cls, storage: Storage) -> "Inputs":
        """Return the inputs that are prepared in the storage."""
        train = storage.read_reference(TRAIN.to_user_string(), TrainReference)
        base = storage.read_reference(BASE.to_user_string(), ModelReference)
        suite = storage.read_reference(SUITE.to_user_string(), SuiteReference)
        return cls(train.digest, base.digest, suite.digests)

    def recorded(
        self, options: ExperimentOptions, training: TrainingOptions, key: dg.MultiPartitionKey
    ) -> RecordedRun | str:
        """The recorded run of a partition; "" if there is none, otherwise the reason why it is not comparable."""
        file = recorded_file(options, key)
        if file is None or not file.exists():
            return ""
        run = read_run(file, "remove the file, after which the run is made again")
        return self.fault(run, file, training_of(options, training, key)) or run

    def fault(self, run: RecordedRun, file: Path, training: TrainingOptions) -> str:
        """Explain why the ``run`` in ``file`` is not that of ``training`` with these inputs; "" if it is."""
        from training.config.keys import read_by
        from training.job.request import file_digests

        request = run.manifest.request
        overrides, _ = read_by(training.recipe, training.overrides)
        asked = (request.recipe, request.hardware, request.seed, request.overrides)
        if asked != (recipe_name(training.recipe), training.hardware, training.seed, tuple(overrides)):
            return f"its settings in {file} are different"
        if request.files != file_digests(training.recipe, training.hardware, overrides):
            return f"its recipe or a function of it in {file} is different"
        return self._fault(run.manifest, run.problems)

    def read(
        self, storage: Storage, options: ExperimentOptions, training: TrainingOptions, key: dg.MultiPartitionKey
    ) -> Any:
        """Return the `Run` of a partition, which is in the storage or recorded.

        "" if it was never scored, otherwise the reason why it is not comparable.
        """
        run = self._stored(storage, key)
        if isinstance(run, str):
            run = self.recorded(options, training, key) or run
        return run if isinstance(run, str) else self._to_compare(run)

    def _stored(self, storage: Storage, key: dg.MultiPartitionKey) -> RecordedRun | str:
        from core.files import read_json_lines
        from evaluation.sample_tables import read_scores

        reference = f"{SCORES.to_user_string()}/{key}"
        if not storage.reference_file(reference).exists():
            return ""
        experiment = storage.read_reference(reference, ExperimentReference)
        policy = experiment.policy
        problems = {name: score.problems for name, score in policy.scores.items()}
        manifest = read_manifest(Path(policy.path))
        if fault := self._fault(manifest, problems):
            return fault
        if manifest.checkpoint_digest != policy.digest:
            return "its policy was trained again"
        tables = read_scores({name: score.file for name, score in policy.scores.items()})
        return RecordedRun(manifest, tuple(read_json_lines(Path(experiment.metrics))), problems, tables)

    def _fault(self, manifest: Manifest, problems: Mapping[str, str]) -> str:
        """Explain why a run with these inputs is not comparable with the others; "" if it is."""
        for reason, recorded, present in (
            ("its targets have changed", manifest.targets.digest, self.train),
            ("its base model has changed", manifest.base_model.digest, self.base),
            ("its problems have changed", problems, self.problems),
        ):
            if recorded != present:
                return reason
        return ""

    def _to_compare(self, run: RecordedRun) -> Any:
        from evaluation.report.recipe_comparison import PEAK, Run

        manifest, request = run.manifest, run.manifest.request
        generated = sum(record["data"].get("batch/generated_tokens", 0) for record in run.metrics)
        peaks = [record["data"][MEMORY] for record in run.metrics if MEMORY in record["data"]]
        costs = {"minutes": 60 * manifest.device_hours, "generated tokens": float(generated)}
        facts = {
            "steps": manifest.steps,
            "seed": request.seed,
            "hardware": request.hardware,
            "settings": ", ".join(request.overrides),
            "generated tokens": f"{generated:,.0f}",
            "minutes": f"{costs['minutes']:.1f}",
            PEAK: f"{max(peaks):.1f}" if peaks else "",
            "targets": self.train[:SHORT_DIGEST],
            "base": self.base[:SHORT_DIGEST],
            "commit": (manifest.code.commit or "")[:SHORT_DIGEST],
        }
        return Run(manifest.checkpoint_digest, run.tables, run.metrics, facts, manifest.config, request.seed, costs)


def base_run(storage: Storage, suite: Sequence[Benchmark], base: ModelReference, problems: SuiteReference) -> Any:
    """Return the `Run` of the base model, or None unless all of its present scores are there."""
    from evaluation.report.recipe_comparison import Run
    from evaluation.sample_tables import read_scores

    files = {}
    for benchmark in suite:
        reference = base_scores(benchmark, "base").to_user_string()
        if not storage.reference_file(reference).exists():
            return None
        scores = storage.read_reference(reference, ScoresReference)
        if (scores.checkpoint, scores.problems) != (base.digest, problems.digests[benchmark.name]):
            return None
        files[benchmark.name] = scores.path
    return Run(base.digest, read_scores(files))
