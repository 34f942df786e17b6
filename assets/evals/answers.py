"""The answers of a model to benchmarks, with their verdicts: what is there is reused, and the rest drawn and graded.

The training interpreter loads the model once for all benchmarks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from assets.shared.gpu_slot import gpu_slot
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.references import Reference, SuiteReference
from assets.shared.storage import Storage
from core import kinds
from core.code_digest import identity
from core.files import write_table
from core.progress import progress_line
from core.shared_settings import InterpreterSettings
from evaluation.generation.requests import Counts
from evaluation.sample_tables import read_suite_file
from evaluation.settings import EvaluationSettings
from grading.graded_table import Verifiers, grade_table, verifier_digests
from grading.tools.settings import ToolSettings

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLES_KEPT = "the samples so far are stored; materialize again to continue"
# The options on which the samples of a model depend.
SAMPLING = {"samples", "temperature", "top_p", "max_tokens", "seed", "template", "chat_template_kwargs"}


@dataclass(frozen=True)
class Answers:
    """A model, and the files of its samples and of their verdicts, by benchmark."""

    model: Reference
    samples: Mapping[str, Path]
    graded: Mapping[str, Path]


@dataclass(frozen=True)
class Sampler:
    """What draws the answers of models to the problems of a suite, and grades them."""

    context: dg.AssetExecutionContext
    storage: Storage
    suite: SuiteReference
    settings: EvaluationSettings
    interpreter: TrainingInterpreter
    tools: ToolSettings | None

    @cached_property
    def problems(self) -> "pa.Table":
        """The BENCHMARK table of the suite."""
        return read_suite_file(Path(self.suite.path))

    def answers(
        self, model: Reference, names: Sequence[str], seed: int | None = None, counts: Counts | None = None
    ) -> Answers:
        """Return the answers of ``model`` to the benchmarks ``names``.

        Args:
            seed: None: the seed of the settings.
            counts: Number of samples of each problem by benchmark, if the settings leave it to the decision.
        """
        options = self.settings if seed is None else self.settings.model_copy(update={"seed": seed})
        sampling, folders = options.model_dump(include=SAMPLING), {}
        for name in names:
            chosen = [self.tools.digest()] if self.tools else []
            digest = kinds.GRADED.identity(
                model.digest, self.suite.digests[name], sampling, counts and counts[name], *chosen
            )
            folders[name] = self.storage.result("generations", name, digest)
        if missing := self._missing(folders):
            with gpu_slot(self.context):
                missing = [name for name in missing if not folders[name].exists()]
                if missing:  # otherwise another run has drawn them while this one waited
                    self._draw(model, {name: folders[name] for name in missing}, options, counts)
        samples = {name: folder / "samples.parquet" for name, folder in folders.items()}
        return Answers(model, samples, self._graded(samples))

    def _missing(self, folders: Mapping[str, Path]) -> list[str]:
        log = self.context.log
        return [name for name, folder in folders.items() if not self.storage.has(folder, kinds.GRADED, log)]

    def _draw(
        self, model: Reference, folders: Mapping[str, Path], options: EvaluationSettings, counts: Counts | None
    ) -> None:
        """Generate samples into ``folders``; benchmarks that are complete when the step is interrupted are kept."""
        from evaluation.commands import Generate

        log, storage, fields = self.context.log, self.storage, set(EvaluationSettings.model_fields)
        with storage.working("generations", "jobs", identity(*(folder.name for folder in folders.values()))) as out:
            request = Generate(
                model=model.path,
                suite=Path(self.suite.path),
                benchmarks=tuple(folders),
                out=out,
                checkpoint=model.digest,
                cache=(out if storage.force else storage.path) / "samples",
                evaluation=EvaluationSettings.model_validate(options.model_dump(include=fields)),
                interpreter=InterpreterSettings(**self.interpreter.placement(self.context)),
                counts=None if counts is None else {name: dict(counts[name]) for name in counts},
                tools=self.tools,
            )
            arguments = ["evaluation", "generate", "--request", str(request.write(out / "request.json"))]
            try:
                self.interpreter.run(
                    self.context, arguments, lambda message: log.info(progress_line(message)), lambda: SAMPLES_KEPT
                )
            finally:
                for name, folder in folders.items():
                    if (out / f"{name}.parquet").exists():
                        with storage.writing(folder, kinds.GRADED) as temporary:
                            request.write(temporary / "request.json")
                            (out / f"{name}.parquet").rename(temporary / "samples.parquet")

    def _graded(self, samples: Mapping[str, Path]) -> dict[str, Path]:
        """Return the verdict files of ``samples``, after grading those that have none."""
        import pyarrow.parquet as pq

        options, folders = self.settings, {}
        rules = {"thinking": options.thinking, "truncated": options.truncated}
        for name, path in samples.items():
            settings = [*rules.values(), options.grade_limit_s]
            digest = kinds.GRADED.identity(path.parent.name, settings, verifier_digests(self.problems, name))
            folders[name] = self.storage.result("graded", name, digest)
        if missing := self._missing(folders):
            with Verifiers(options.grade_workers, options.grade_limit_s) as verifiers:
                for name in missing:
                    table = grade_table(pq.read_table(samples[name]), self.problems, verifiers, **rules)
                    with self.storage.writing(folders[name], kinds.GRADED) as folder:
                        write_table(table, folder / "graded.parquet")
                    self.context.log.info(f"{name}: graded {table.num_rows} samples")
        return {name: folder / "graded.parquet" for name, folder in folders.items()}
