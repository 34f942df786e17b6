"""Compare several models: each with its interval, and its paired difference from the first.

A model is a folder of graded results, a checkpoint, a hub id or an endpoint. All but the first are sampled and graded
here on one suite; samples come from the cache where it has them.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.files import digest_bytes, write_table
from core.model.model_folder import HUB_ID
from evaluation.generation.endpoint import Endpoint
from evaluation.generation.generate import generate
from evaluation.generation.model_source import LocalModel, open_model
from evaluation.report.table import Table, change, p_value, percent, power_from, score
from evaluation.sample_tables import checkpoint_of, read_folder
from evaluation.settings import EvaluationSettings
from evaluation.statistics.benchmark_scores import SHARES, pass_at_k, solved_samples, summarize
from evaluation.statistics.paired import paired_difference
from grading.graded_table import Verifiers, grade_table
from grading.tools.settings import ToolSettings

Results = dict[str, pa.Table]  # benchmark -> GRADED


def stored_results(names: Sequence[str]) -> dict[str, Results]:
    """Return {name: {benchmark: GRADED}} for the ``names`` that are folders of graded results.

    Raises:
        InputError: A name is given twice, or is neither a folder of results nor a model.
    """
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"compare: {', '.join(repeated)} given twice; give each model once")
    stored = {name: Path(name) for name in names if any(Path(name).glob("*.parquet"))}
    for name in names:
        known = Endpoint.parse(name) or HUB_ID(name) or (Path(name) / "config.json").is_file()
        if name not in stored and not known:
            raise InputError(
                f"{name}: no <benchmark>.parquet of luffy evaluate grade there, no config.json of a model, and "
                "neither a hub id (owner/name[@revision]) nor an endpoint (MODEL@URL)"
            )
    results = {name: read_folder(folder, "graded") for name, folder in stored.items()}
    for name, tables in results.items():
        checkpoint_of(tables, f"{name}: its scores")
    return results


def evaluate(
    names: Sequence[str],
    suite: pa.Table,
    settings: EvaluationSettings,
    cache: Path,
    out: Path | None,
    tools: ToolSettings | None = None,
) -> dict[str, Results]:
    """Sample and grade models, which may call ``tools``, on ``suite``; return {name: {benchmark: GRADED}}.

    The folder ``out`` keeps the results, one folder per model, named by its digest.
    """
    engines = settings.engines(*names)
    models = {name: open_model(name, tools=tools, **engines) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        return {
            name: _evaluate(model, suite, settings, cache, Path(folder) / str(number), out)
            for number, (name, model) in enumerate(models.items())
        }


def _evaluate(
    model: LocalModel | Endpoint,
    suite: pa.Table,
    settings: EvaluationSettings,
    cache: Path,
    folder: Path,
    out: Path | None,
) -> Results:
    generate(model, suite, folder, sampling=settings.sampling(settings.fixed_samples), cache=cache)
    rules = {"thinking": settings.thinking, "truncated": settings.truncated}
    with Verifiers(settings.grade_workers, settings.grade_limit_s) as verifiers:
        sampled = read_folder(folder, "samples").items()
        graded = {name: grade_table(samples, suite, verifiers, **rules) for name, samples in sampled}
    if out:
        digest = model.checkpoint if isinstance(model, LocalModel) else digest_bytes(model.checkpoint.encode())
        for name, table in graded.items():
            write_table(table, out / digest[:SHORT_DIGEST] / f"{name}.parquet")
    return graded


def comparison_table(results: "dict[str, Results]", *, pass_at: int | None = None) -> Table:
    """Return one row per benchmark and model from {model: {benchmark: GRADED}}; the first model is the baseline.

    Raises InputError if a model shares no benchmark with the first, if two results of a benchmark hold different
    problems, or if problems have fewer samples than ``pass_at`` needs.
    """
    (first, baseline), *others = results.items()
    for name, tables in others:
        if not baseline.keys() & tables.keys():
            raise InputError(f"{name}: shares no benchmark with {first}; grade the same suite for both")
    extra = [] if pass_at is None else [f"pass@{pass_at}"]
    columns = ["", "samples right", *extra, *SHARES, "difference", "p", "80% power from", "test"]
    table = Table(columns, left=(0, len(columns) - 1))
    for benchmark, graded in baseline.items():
        summary = summarize(graded)
        table.add(f"{benchmark}: {summary.problems} problems, avg@{summary.k}", kind="group")
        for name, tables in results.items():
            if benchmark not in tables:
                table.add(name, "not evaluated")
                continue
            k, summary = summary.k, summarize(tables[benchmark])
            cells = [
                name if summary.k == k else f"{name}, avg@{summary.k}",
                score(summary.low, summary.mean, summary.high),
            ]
            cells += [] if pass_at is None else [percent(pass_at_k(solved_samples(tables[benchmark]), pass_at))]
            cells += [percent(getattr(summary, share)) for share in SHARES.values()]
            if name != first:
                d = paired_difference(graded, tables[benchmark])
                cells += [change(d.mean, d.low, d.high), p_value(d.p_value), power_from(d.detectable), d.test]
            table.add(*cells)
    return table
