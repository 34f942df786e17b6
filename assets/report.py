"""report/scorecard: base and policy on the same problems, with the lineage of both."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals import ROLES, key
from assets.models import KEY as BASE
from assets.shared.failures import reports_input_errors
from assets.shared.interpreter import TrainingInterpreter
from assets.shared.metadata import rounded
from assets.shared.options import ReportOptions, with_defaults
from assets.shared.references import (
    ModelReference,
    PolicyReference,
    PreparedReference,
    Reference,
    ScorecardReference,
    ScoresReference,
    SuiteReference,
)
from assets.shared.storage import Storage
from assets.targets import PREPARED
from assets.training import POLICY
from core.code_digest import SHORT_DIGEST, code_version, identity
from core.errors import InputError
from core.progress import progress_line
from evaluation.benchmarks.suite import Benchmark
from evaluation.promotion.champions import Checkpoint, Registry, ScoreFile

if TYPE_CHECKING:
    import pyarrow as pa

    from evaluation.report.scorecard.scorecard import Row
    from training.export.model_card import Score

SCORECARD = dg.AssetKey(["report", "scorecard"])
PAGE, TEXT, MARKDOWN, NUMBERS = "scorecard.html", "scorecard.txt", "scorecard.md", "scorecard.json"


def eval_inputs(suite: Sequence[Benchmark]) -> dict[str, dg.AssetIn]:
    """Every score of both roles as an input named ``<role>__<benchmark>``."""
    return {
        f"{role}__{benchmark.name}": dg.AssetIn(key(benchmark, role), dagster_type=ScoresReference)
        for role in ROLES
        for benchmark in suite
    }


def scores_of(
    inputs: Mapping[str, ScoresReference], suite: Sequence[Benchmark], role: str
) -> dict[str, ScoresReference]:
    """The references of ``role`` by benchmark, in the suite's order."""
    return {benchmark.name: inputs[f"{role}__{benchmark.name}"] for benchmark in suite}


def check_checkpoint(
    scores: Mapping[str, ScoresReference], suite: Sequence[Benchmark], role: str, model: Reference
) -> None:
    """InputError that lists the scores of ``role`` that are not of ``model``, the one that its asset names."""
    benchmarks = {benchmark.name: benchmark for benchmark in suite}
    stale = {
        key(benchmarks[name], role).to_user_string(): reference.checkpoint
        for name, reference in scores.items()
        if reference.checkpoint != model.digest
    }
    if stale:
        listed = ", ".join(f"{name} ({digest[:SHORT_DIGEST]})" for name, digest in stale.items())
        raise InputError(
            f"{ROLES[role].to_user_string()} is {model.short}, but these scores belong to another checkpoint: "
            f"{listed}; materialize them again"
        )


def build_report(suite: Sequence[Benchmark], options: ReportOptions) -> list[dg.AssetsDefinition]:
    """The scorecard of the suite."""

    class Config(with_defaults(options)): ...

    @dg.asset(
        key=SCORECARD,
        group_name="report",
        kinds={"html"},
        code_version=code_version("evaluation/report", "evaluation/statistics"),
        ins={
            "prepared": dg.AssetIn(PREPARED),
            "base": dg.AssetIn(BASE),
            "policy": dg.AssetIn(POLICY),
            "problems": dg.AssetIn(SUITE),
            **eval_inputs(suite),
        },
        description="One page that compares the policy with the base on every benchmark, with 95% intervals of the "
        "differences. It also shows the champion's and published scores, transcripts, training curves, contamination, "
        "cost and lineage. Scores of different checkpoints are rejected.",
    )
    @reports_input_errors
    def scorecard(
        context: dg.AssetExecutionContext,
        config: Config,
        storage: Storage,
        interpreter: TrainingInterpreter,
        prepared: PreparedReference,
        base: ModelReference,
        policy: PolicyReference,
        problems: SuiteReference,
        **evals: ScoresReference,
    ) -> dg.MaterializeResult[ScorecardReference]:
        from core.files import read_json_lines
        from core.model.manifest import read_manifest
        from evaluation.report.scorecard.scorecard import build_scorecard
        from evaluation.report.scorecard.scorecard_text import render_markdown, render_text
        from evaluation.sample_tables import read_scores, read_suite_file
        from grading.contamination import search_lineage
        from training.export.model_card import write_scores

        scores = {role: scores_of(evals, suite, role) for role in ROLES}
        for role, model in (("base", base), ("policy", policy)):
            check_checkpoint(scores[role], suite, role, model)
        if policy.base != base.digest:
            raise InputError(
                f"training/policy was trained from base {policy.base[:SHORT_DIGEST]}, but models/base is {base.short}; "
                "materialize training/policy again"
            )
        tables = {role: read_scores({name: r.path for name, r in scores[role].items()}) for role in ROLES}
        questions = read_suite_file(Path(problems.path))
        lineage = read_manifest(Path(policy.path)).to_json()
        trained = _checkpoint(policy, scores["policy"])
        champion = Registry(storage.path).comparable_champion(trained)
        champion_files = {name: champion.scores[name].file for name in trained.scores} if champion else {}
        card = build_scorecard(
            tables["base"],
            tables["policy"],
            suite=suite,
            champion=read_scores(champion_files) or None,
            contamination=search_lineage(lineage, Path(policy.path), questions),
            lineage=lineage,
            training_metrics=read_json_lines(Path(policy.metrics)),
            filter_counts=prepared.filter_counts,
        )
        digest = identity(
            [[name, r.digest] for role in ROLES for name, r in scores[role].items()],
            sorted(champion_files.items()),
            code_version("evaluation/report", "evaluation/statistics"),
        )
        folder = storage.folder("report", "scorecard", digest)
        if not folder.exists():
            from evaluation.report.scorecard.scorecard_html import write_page  # matplotlib

            with storage.writing(folder) as temporary:
                write_page(card, temporary / PAGE)
                (temporary / TEXT).write_text(render_text(card) + "\n", encoding="utf-8")
                (temporary / MARKDOWN).write_text(render_markdown(card), encoding="utf-8")
                (temporary / NUMBERS).write_text(json.dumps(numbers(card), indent=2), encoding="utf-8")
        if (Path(policy.path) / "README.md").is_file():  # a policy that was trained elsewhere may have no card
            write_scores(Path(policy.path), {row.name: _score(row) for row in card.rows})
        logs = _write_logs(storage, scores, tables, questions) if config.inspect_logs else None
        _track(context, interpreter, Path(policy.metrics).parent, folder)
        context.log.info(card.verdict())
        return dg.MaterializeResult(
            value=ScorecardReference(
                path=str(folder),
                digest=digest,
                policy=trained,
                base=_checkpoint(base, scores["base"]),
                inspect_logs=str(logs) if logs else None,
            ),
            data_version=dg.DataVersion(digest),
            metadata={
                "verdict": card.verdict(),
                "scorecard": dg.MetadataValue.md(render_markdown(card)),
                "page": storage.link(folder / PAGE),
                "file": dg.MetadataValue.path(str(folder / PAGE)),
                **{f"{average.group} base": rounded(average.base) for average in card.averages},
                **{f"{average.group} policy": rounded(average.policy) for average in card.averages},
                **{f"{average.group} difference": rounded(average.difference) for average in card.averages},
                "policy checkpoint": policy.digest,
                "base checkpoint": base.digest,
                **({"inspect logs": dg.MetadataValue.path(str(logs))} if logs else {}),
            },
        )

    return [scorecard]


def _track(context: dg.AssetExecutionContext, interpreter: TrainingInterpreter, run: Path, scorecard: Path) -> None:
    """Publish the scorecard in the MLflow and W&B runs of the training; without them, say so and go on."""
    from training.job.trackers import FILE

    if (run / FILE).is_file():
        arguments = ["training", "track", "--run", str(run), "--scorecard", str(scorecard)]
        try:
            interpreter.run(context, arguments, lambda message: context.log.info(progress_line(message)))
        except dg.Failure as failure:
            context.log.warning(f"the scorecard is not in the runs of the trackers: {failure.description}")


def _write_logs(
    storage: Storage,
    scores: Mapping[str, Mapping[str, ScoresReference]],
    tables: "Mapping[str, Mapping[str, pa.Table]]",
    suite: "pa.Table",
) -> Path:
    """The folder with the Inspect logs of both roles. Logs of all scorecards have a parent, which Inspect can show."""
    from datetime import UTC, datetime

    from evaluation.export.inspect_log import write_logs

    versions = [[reference.digest for reference in references.values()] for references in scores.values()]
    folder = storage.folder("report", "inspect", identity(versions, code_version("evaluation/export")))
    if not folder.exists():
        with storage.writing(folder) as temporary:
            for role, references in scores.items():
                newest = max(Path(reference.path).stat().st_mtime for reference in references.values())
                graded = datetime.fromtimestamp(newest, UTC)
                write_logs(tables[role], suite, temporary, graded=graded, tags=[role])
    return folder


def _score(row: "Row") -> "Score":
    from training.export.model_card import Score

    policy = row.policy
    return Score(row.title, policy.mean, policy.low, policy.high, policy.problems, policy.k)


def _checkpoint(model: Reference, scores: Mapping[str, ScoresReference]) -> Checkpoint:
    files = {name: ScoreFile(file=reference.path, problems=reference.problems) for name, reference in scores.items()}
    return Checkpoint(path=model.path, digest=model.digest, scores=files)


def numbers(card: Any) -> dict[str, Any]:
    """Every figure of the scorecard, for programs."""
    from dataclasses import asdict

    return {
        "base": card.base,
        "policy": card.policy,
        "rows": [
            {**asdict(row), "published": row.published.model_dump() if row.published else None} for row in card.rows
        ],
        "averages": [asdict(average) for average in card.averages],
        "warnings": list(card.warnings),
    }
