"""Several models side by side: each with its interval, and its paired difference from the first.

A model is a folder of graded results, a checkpoint or a hub id; the latter two are generated and graded here, on one
suite, as far as the sample cache lacks them.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError
from core.model_files import HUB_ID
from evaluation.generation.generate import Sampling, generate
from evaluation.generation.models import resolve_model
from evaluation.statistics.scores import paired_difference, pass_at_k, problem_scores, summarize

if TYPE_CHECKING:
    import pyarrow as pa

Results = dict[str, "pa.Table"]  # benchmark -> GRADED


@dataclass(frozen=True)
class Evaluation:
    """How models that have no stored results are evaluated. ``suite``: a name, a YAML file, or a table of `suite`."""

    suite: str
    roots: tuple[Path, ...]
    benchmarks: Sequence[str] | None
    limit: int | None
    sampling: Sampling
    template: str
    cache: Path
    replicas: int | None
    trust_remote_code: bool
    workers: int
    limit_s: float
    thinking: bool | None


def evaluate(names: Sequence[str], how: Evaluation, out: Path | None = None) -> dict[str, Results]:
    """{model: {benchmark: GRADED}} for folders of results, checkpoints and hub ids.

    ``out``: where the graded results of checkpoints are kept, one folder a model, named by its digest.
    """
    from evaluation.tables import read_folder

    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"compare: {', '.join(twice)} given twice; give each model once")
    stored = {name: Path(name) for name in names if any(Path(name).glob("*.parquet"))}
    for name in names:
        if name not in stored and not (Path(name) / "config.json").is_file() and not HUB_ID.fullmatch(name):
            raise InputError(
                f"{name}: no <benchmark>.parquet of python -m evaluation grade there, no config.json of a model, and "
                "not a hub id (owner/name[@revision])"
            )
    models = {name: resolve_model(name) for name in names if name not in stored}
    results = {name: read_folder(folder, "graded") for name, folder in stored.items()}
    if models:
        suite = _suite(how)
        with tempfile.TemporaryDirectory() as folder:
            for number, (name, model) in enumerate(models.items()):
                results[name] = _evaluate(model, suite, how, Path(folder) / str(number), out)
    return {name: results[name] for name in names}


def _suite(how: Evaluation) -> "pa.Table":
    from evaluation.benchmarks.problems import read_suite
    from evaluation.benchmarks.registry import select_benchmarks
    from evaluation.tables import read_suite_file

    if how.suite.endswith(".parquet"):
        return read_suite_file(Path(how.suite))
    chosen = select_benchmarks(how.suite, how.benchmarks)
    return read_suite(chosen, how.roots, limit=how.limit, seed=how.sampling.seed)


def _evaluate(model: Path, suite: "pa.Table", how: Evaluation, folder: Path, out: Path | None) -> Results:
    from core.files import write_table
    from evaluation.generation.models import checkpoint_digest
    from evaluation.tables import read_folder
    from grading.grader import Grader, grade_table

    generate(
        model,
        suite,
        folder,
        benchmarks=how.benchmarks,
        sampling=how.sampling,
        template=how.template,
        cache=how.cache,
        replicas=how.replicas,
        trust_remote_code=how.trust_remote_code,
    )
    with Grader(how.workers, how.limit_s) as grader:
        graded = {
            name: grade_table(samples, suite, grader, thinking=how.thinking)
            for name, samples in read_folder(folder, "samples").items()
        }
    if out:
        for name, table in graded.items():
            write_table(table, out / checkpoint_digest(model)[:16] / f"{name}.parquet")
    return graded


def comparison_text(results: "dict[str, Results]", *, pass_at: int | None = None) -> str:
    """A table for the terminal from {model: {benchmark: GRADED}}; the first model is the baseline.

    Raises InputError if two results share no benchmark, hold different problems of one, or have fewer samples a
    problem than ``pass_at`` needs.
    """
    (first, baseline), *others = results.items()
    lines = []
    for benchmark, graded in baseline.items():
        lines.append(f"{benchmark}\n  {first}: {_scores(graded, pass_at)}")
        for name, tables in others:
            if benchmark not in tables:
                lines.append(f"  {name}: not evaluated")
                continue
            difference = paired_difference(graded, tables[benchmark])
            lines.append(f"  {name}: {_scores(tables[benchmark], pass_at)}")
            lines.append(
                f"    difference {100 * difference.mean:+.1f} points "
                f"[{100 * difference.low:+.1f}, {100 * difference.high:+.1f}], p = {difference.p_value:.3g} "
                f"({difference.test}); 80% power from {100 * difference.detectable:.1f} points"
            )
    for name, tables in others:
        if not baseline.keys() & tables.keys():
            raise InputError(f"{name}: shares no benchmark with {first}; grade the same suite for both")
    return "\n".join(lines)


def _scores(graded: "pa.Table", pass_at: int | None) -> str:
    text = summarize(graded).to_text()
    return text if pass_at is None else f"{text}, pass@{pass_at} {pass_at_k(problem_scores(graded), pass_at):.1%}"
