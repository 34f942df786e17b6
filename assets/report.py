"""The asset report/scorecard: base and policy on the same problems, with the lineage of both."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals.scores import ROLES, key
from assets.models import KEY as BASE
from assets.shared.failures import user_errors
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.luffy import IO_MANAGER, Luffy
from assets.shared.metadata import percents
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
from assets.shared.training_metadata import explanation_lines
from assets.targets import PREPARED
from assets.training import POLICY
from core import kinds
from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.files import read_json_lines
from core.model.lineage_file import read_manifest
from core.progress import progress_line
from evaluation.benchmarks.suite import Benchmark
from evaluation.promotion.champions import Registry
from evaluation.promotion.decision_text import decision_rows
from evaluation.promotion.promotion_rules import compare_with_champion
from evaluation.promotion.records import Checkpoint, Contenders, ScoreFile
from evaluation.report.scorecard.publish import PAGE, write_scorecard
from evaluation.sample_tables import read_scores, read_suite_file

if TYPE_CHECKING:
    import pyarrow as pa

    from evaluation.report.scorecard.scorecard import Scorecard
    from grading.contamination import Contamination

SCORECARD = dg.AssetKey(["report", "scorecard"])


def scores_of(suite: Sequence[Benchmark]) -> list[dg.AssetKey]:
    """Return the keys of the scores that the scorecard compares, of both roles.

    They depend on models, targets and problems: more arrows to the scorecard would make the graph hard to read.
    """
    return [key(benchmark, role) for role in ROLES for benchmark in suite]


def check_checkpoints(
    scores: Mapping[str, Mapping[str, ScoresReference]],
    suite: Sequence[Benchmark],
    base: ModelReference,
    policy: PolicyReference,
) -> None:
    """Require the ``scores`` of each role to be of its model, and the policy to be trained from ``base``."""
    for role, model in (("base", base), ("policy", policy)):
        stale = {
            key(benchmark, role).to_user_string(): scored.checkpoint
            for benchmark in suite
            if (scored := scores[role][benchmark.name]).checkpoint != model.digest
        }
        if stale:
            listed = ", ".join(f"{name} ({digest[:SHORT_DIGEST]})" for name, digest in stale.items())
            raise InputError(
                f"{ROLES[role].to_user_string()} is {model.short}, but these scores belong to another checkpoint: "
                f"{listed}; materialize them again"
            )
    if policy.base != base.digest:
        raise InputError(
            f"training/policy was trained from base {policy.base[:SHORT_DIGEST]}, but models/base is {base.short}; "
            "materialize training/policy again"
        )


def _scorecard(
    context: dg.AssetExecutionContext, luffy: dg.ResourceParam[Luffy], luffy_interpreter: TrainingInterpreter
) -> dg.MaterializeResult[ScorecardReference]:
    from evaluation.report.scorecard.scorecard import build_scorecard
    from grading.contamination import search_lineage

    with user_errors(context):
        storage = luffy.storage
        base = luffy.read(context, BASE, ModelReference)
        policy = luffy.read(context, POLICY, PolicyReference)
        problems = read_suite_file(Path(luffy.read(context, SUITE, SuiteReference).path))
        scores = {
            role: {b.name: luffy.read(context, key(b, role), ScoresReference) for b in luffy.suite} for role in ROLES
        }
        check_checkpoints(scores, luffy.suite, base, policy)
        contenders = Contenders(
            policy=_checkpoint(policy, scores["policy"]),
            base=_checkpoint(base, scores["base"]),
            opponent=_opponent(scores["policy"]),
        )
        lineage = read_manifest(Path(policy.path))
        contamination = search_lineage(lineage, Path(policy.path), problems)
        champion = _champion_files(storage, contenders)
        decision = _decision(Registry(storage.path), contenders, luffy, contamination)
        tables = {role: read_scores({name: r.path for name, r in scores[role].items()}) for role in ROLES}
        card = build_scorecard(
            tables["base"],
            tables["policy"],
            suite=luffy.suite,
            champion=read_scores(champion) or None,
            contamination=contamination,
            lineage=lineage,
            training_metrics=read_json_lines(Path(policy.metrics)),
            filter_counts=luffy.read(context, PREPARED, PreparedReference).filter_counts,
            decision=decision,
            explanation=explanation_lines(Path(policy.metrics).parent),
        )
        versions = [[name, reference.digest] for role in ROLES for name, reference in scores[role].items()]
        digest = kinds.GRADED.identity(versions, sorted(champion.items()), decision)
        folder = storage.result("report", "scorecard", digest)
        _write(card, storage, folder, Path(policy.path), context.log)
        logs = _write_logs(context, storage, scores, tables, problems) if luffy.settings.report.inspect_logs else None
        _track(context, luffy_interpreter, Path(policy.metrics).parent, folder)
        context.log.info(card.verdict())
        first = card.averages[0]
        context.instance.add_run_tags(context.run_id, {"score": f"{first.base:.1%} to {first.policy:.1%}"})
        reference = ScorecardReference(
            path=str(folder), digest=digest, contenders=contenders, inspect_logs=str(logs) if logs else None
        )
        return reference.result(_metadata(card, reference, storage))


def scorecard_asset(suite: Sequence[Benchmark]) -> dg.AssetsDefinition:
    """Build the scorecard, which waits for the scores of ``suite``: Dagster orders no steps by deps added later."""
    return dg.asset(
        key=SCORECARD,
        io_manager_key=IO_MANAGER,
        group_name="report",
        kinds={"html"},
        code_version=kinds.GRADED.code_version,
        description="One page that compares the policy with the base on every benchmark, with 95% intervals of the "
        "differences. It also shows the champion's and published scores, transcripts, training curves, contamination, "
        "cost and lineage. Scores of different checkpoints are rejected.",
        deps=scores_of(suite),
    )(_scorecard)


def _write(card: "Scorecard", storage: Storage, folder: Path, policy: Path, log: dg.DagsterLogManager) -> None:
    """Write the page into ``folder``, unless it is there, and the scores into the model card of the ``policy``."""
    if not storage.has(folder, kinds.GRADED, log):
        with storage.writing(folder, kinds.GRADED) as temporary:
            write_scorecard(card, temporary)
    if (policy / "README.md").is_file():  # a policy that was trained elsewhere may have no card
        _write_scores(policy, card)


def _opponent(scores: Mapping[str, ScoresReference]) -> Checkpoint | None:
    """Return the model that answered the same problems as the policy; None unless all benchmarks have the same."""
    opponents = [reference.opponent for reference in scores.values() if reference.opponent]
    if len(opponents) < len(scores) or len({one.digest for one in opponents}) > 1:
        return None
    return opponents[0].model_copy(
        update={"scores": {name: file for one in opponents for name, file in one.scores.items()}}
    )


def _champion_files(storage: Storage, contenders: Contenders) -> dict[str, str]:
    """Return the graded answers of the champion by benchmark, if it answered the same problems as the policy.

    They are the answers with which it defends its place, or otherwise those with which it won it.
    """
    if contenders.opponent:
        is_base = contenders.opponent.digest == contenders.base.digest
        return {} if is_base else {name: score.file for name, score in contenders.opponent.scores.items()}
    champion = Registry(storage.path).comparable_champion(contenders.policy)
    return {name: champion.scores[name].file for name in contenders.policy.scores} if champion else {}


def _decision(
    registry: Registry, contenders: Contenders, luffy: Luffy, contamination: "Contamination | None"
) -> list[tuple[str, str]]:
    """Describe what registry/champion would decide at this moment, or what it decided about the champion."""
    if all(benchmark.group != "evals" for benchmark in luffy.suite):
        return []  # registry/champion refuses such a suite
    champion = registry.champion()
    if champion and champion.checkpoint == contenders.policy.digest:
        return decision_rows(champion.decision)
    decision = compare_with_champion(
        contenders,
        champion,
        registry=registry,
        suite=luffy.suite,
        limits=luffy.settings.promotion,
        search=lambda: contamination,
    )
    return decision_rows(decision)


def _metadata(card: "Scorecard", reference: ScorecardReference, storage: Storage) -> dict[str, Any]:
    from evaluation.report.scorecard.scorecard_text import render_markdown

    page, logs = Path(reference.path) / PAGE, reference.inspect_logs
    return {
        "verdict": card.verdict(),
        "scorecard": dg.MetadataValue.md(render_markdown(card)),
        "page": storage.link(page),
        "file": dg.MetadataValue.path(str(page)),
        **percents({f"{average.group} base": average.base for average in card.averages}),
        **percents({f"{average.group} policy": average.policy for average in card.averages}),
        **percents({f"{average.group} difference": average.difference for average in card.averages}, "points"),
        "policy checkpoint": reference.contenders.policy.digest,
        "base checkpoint": reference.contenders.base.digest,
        **({"inspect logs": dg.MetadataValue.path(logs)} if logs else {}),
    }


def _track(context: dg.AssetExecutionContext, interpreter: TrainingInterpreter, run: Path, scorecard: Path) -> None:
    """Publish the scorecard in the MLflow and W&B runs of the training; if they do not answer, warn and continue."""
    from training.job.trackers import FILE

    if (run / FILE).is_file():
        arguments = ["training", "track", "--run", str(run), "--scorecard", str(scorecard)]
        try:
            interpreter.run(context, arguments, lambda message: context.log.info(progress_line(message)))
        except dg.Failure as failure:
            context.log.warning(f"the scorecard is not in the runs of the trackers: {failure.description}")


def _write_logs(
    context: dg.AssetExecutionContext,
    storage: Storage,
    scores: Mapping[str, Mapping[str, ScoresReference]],
    tables: "Mapping[str, Mapping[str, pa.Table]]",
    suite: "pa.Table",
) -> Path:
    """Write the Inspect logs of both roles into a folder; its parent holds the logs of all scorecards."""
    from evaluation.export.inspect_log import write_logs

    versions = [[reference.digest for reference in references.values()] for references in scores.values()]
    folder = storage.result("report", "inspect", kinds.GRADED.identity(versions))
    if not storage.has(folder, kinds.GRADED, context.log):
        with storage.writing(folder, kinds.GRADED) as temporary:
            for role, references in scores.items():
                newest = max(Path(reference.path).stat().st_mtime for reference in references.values())
                graded = datetime.fromtimestamp(newest, UTC)
                write_logs(tables[role], suite, temporary, graded=graded, tags=[role])
    return folder


def _write_scores(policy: Path, card: "Scorecard") -> None:
    from training.export.model_card import Score, write_scores

    scores = {}
    for row in card.rows:
        policy_score = row.policy
        scores[row.name] = Score(
            row.title, policy_score.mean, policy_score.low, policy_score.high, policy_score.problems, policy_score.k
        )
    write_scores(policy, scores)


def _checkpoint(model: Reference, scores: Mapping[str, ScoresReference]) -> Checkpoint:
    files = {name: ScoreFile(file=r.path, problems=r.problems, sequential=r.sequential) for name, r in scores.items()}
    return Checkpoint(path=model.path, digest=model.digest, scores=files)
