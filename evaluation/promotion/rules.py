"""The rules of promotion: whether a policy becomes the champion, and why not."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.model.manifest import read_manifest
from evaluation.benchmarks.suite import Benchmark
from evaluation.promotion.champions import Checkpoint, Decision, PolicyRecord, PromotionLimits, missing_scores

if TYPE_CHECKING:
    import pyarrow as pa


def compare_with_champion(
    policy: Checkpoint,
    base: Checkpoint,
    champion: PolicyRecord | None,
    *,
    suite: Sequence[Benchmark],
    problems: "pa.Table",
    limits: PromotionLimits,
) -> Decision:
    """The decision on ``policy``, from its comparison with the champion, or with ``base`` where there is none yet.

    Args:
        problems: The suite's BENCHMARK rows, which must not be among the targets of the policy.
    """
    from evaluation.sample_tables import read_scores
    from grading.contamination import search_lineage

    if champion and (reason := reason_without_comparison(policy, champion)):
        return Decision(promoted=False, against=champion.checkpoint, reasons=[reason])
    opponent = champion.scores if champion else base.scores
    missing = missing_scores(opponent, policy.scores)
    if champion and missing:
        reason = (
            f"the champion has no scores on these problems of {', '.join(missing)}, so there is nothing to compare "
            "with; score it on this suite, or move champion.json away to start from the base"
        )
        return Decision(promoted=False, against=champion.checkpoint, reasons=[reason])
    manifest = read_manifest(Path(policy.path))
    if manifest.checkpoint_digest != policy.digest:
        raise InputError(
            f"checkpoint {policy.path} is {manifest.checkpoint_digest[:SHORT_DIGEST]}, but the scores are of "
            f"{policy.digest[:SHORT_DIGEST]}: score it again"
        )
    overlap = search_lineage(manifest.to_json(), Path(policy.path), problems)
    contamination = None
    if overlap is not None:
        contamination = {name: overlap.by_benchmark().get(name, 0) for name in policy.scores}
    return compare(
        read_scores({name: opponent[name].file for name in policy.scores}),
        read_scores({name: score.file for name, score in policy.scores.items()}),
        suite=suite,
        limits=limits,
        contamination=contamination,
    )


def reason_without_comparison(policy: Checkpoint, champion: PolicyRecord) -> str | None:
    """Why ``policy`` cannot replace ``champion``, whatever its scores; None if its scores decide."""
    if champion.checkpoint == policy.digest:
        return "it is already the champion"
    if policy.digest in champion.rejected:
        return "it was rolled back by hand, so only `make promote` can bring it back"
    return None


def compare(
    opponent: "Mapping[str, pa.Table]",
    policy: "Mapping[str, pa.Table]",
    *,
    suite: Sequence[Benchmark],
    limits: PromotionLimits,
    contamination: Mapping[str, int] | None,
) -> Decision:
    """Compare GRADED tables of the policy with its opponent's on the same problems.

    The policy is promoted when its average in-domain difference is above zero beyond chance (95%), no out-of-domain
    benchmark lost more than ``limits.max_ood_drop``, no benchmark was cut at the token limit more often than
    ``limits.max_truncated``, and none of the suite's problems is among the targets that it was trained on.

    Args:
        contamination: Problems found among those targets, by benchmark. None where the targets are gone, which is a
            reason against the promotion too.
    """
    from evaluation.report.scorecard.scorecard import build_scorecard

    card = build_scorecard(opponent, policy, suite=suite)
    averages = {average.group: average for average in card.averages}
    if "evals" not in averages:
        raise InputError("the suite has no in-domain benchmark (group evals), on which a champion is chosen")
    main = averages["evals"]
    ood = {row.name: row.difference.mean for row in card.rows if row.group == "ood"}
    truncated = {row.name: row.policy.truncated for row in card.rows}
    reasons = []
    if main.low <= 0:
        reasons.append(
            f"in-domain difference {100 * main.difference:+.1f} points, 95% interval [{100 * main.low:+.1f}, "
            f"{100 * main.high:+.1f}], which is not above zero beyond chance"
        )
    reasons += [
        f"{name}: {100 * drop:+.1f} points out of domain, but at most {100 * limits.max_ood_drop:.1f} may be lost"
        for name, drop in ood.items()
        if drop < -limits.max_ood_drop
    ]
    reasons += [
        f"{name}: {share:.0%} of the samples were cut at the token limit, but at most {limits.max_truncated:.0%} may be"
        for name, share in truncated.items()
        if share > limits.max_truncated
    ]
    if contamination is None:
        reasons.append(
            "the targets that the policy was trained on are gone, so they cannot be searched for benchmark problems"
        )
    else:
        reasons += [f"{name}: {n} problems are among the training targets" for name, n in contamination.items() if n]
    return Decision(
        promoted=not reasons,
        against=card.base,
        reasons=reasons,
        difference=main.difference,
        low=main.low,
        high=main.high,
        p_values={row.name: row.difference.p_value for row in card.rows},
        ood=ood,
        truncated=truncated,
        contamination=None if contamination is None else dict(contamination),
    )
