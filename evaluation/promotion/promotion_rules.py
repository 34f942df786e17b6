"""Whether a policy becomes the champion, and why not."""

from collections.abc import Callable, Mapping, Sequence
from math import log
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from core.code_digest import SHORT_DIGEST, identity
from core.errors import InputError
from core.model.lineage_file import read_manifest
from evaluation.benchmarks.suite import Benchmark
from evaluation.promotion.champions import Registry, missing_scores
from evaluation.promotion.decision_text import about, e_value
from evaluation.promotion.match import Evidence, Match, compare_answers
from evaluation.promotion.records import Checkpoint, Decision, PolicyRecord, PromotionLimits
from evaluation.sample_tables import read_scores, recorded

if TYPE_CHECKING:
    import pyarrow as pa

    from grading.contamination import Contamination

Z90 = 1.6448536269514722  # scipy.stats.norm.ppf(0.95)


def compare_with_champion(
    policy: Checkpoint,
    base: Checkpoint,
    champion: PolicyRecord | None,
    *,
    opponent: Checkpoint | None,
    registry: Registry,
    suite: Sequence[Benchmark],
    limits: PromotionLimits,
    search: "Callable[[], Contamination | None]",
) -> Decision:
    """Decide on ``policy`` by comparing it with the champion, or with ``base`` if there is no champion yet.

    The chance of any false promotion, over all decisions of ``registry``, is at most ``limits.error_rate``.

    Args:
        opponent: the champion with the answers with which it defends its place against ``policy``; see `evals`.
        search: Looks for the suite's problems among the targets of the policy; None where these are gone.
    """
    against = champion.checkpoint if champion else base.digest
    if champion and (reason := reason_without_comparison(policy, champion)):
        return Decision(promoted=False, against=against, reasons=[reason])
    scores = opponent.scores if opponent and opponent.digest == against else {} if champion else base.scores
    if (champion or opponent) and (missing := missing_scores(scores, policy.scores)):
        reason = (
            f"the champion has not answered the problems of {', '.join(missing)} beside this policy, because it came "
            "later, or the suite or evaluation.samples was another; materialize evals/policy and what follows it again"
        )
        return Decision(promoted=False, against=against, reasons=[reason])
    _require_scored(policy)
    overlap, contamination = search(), None
    if overlap is not None:
        contamination = {name: overlap.by_benchmark().get(name, 0) for name in policy.scores}
    answers = read_scores({name: score.file for name, score in policy.scores.items()})
    opponents = read_scores({name: scores[name].file for name in policy.scores})
    return _decide(
        opponents,
        answers,
        read_scores({b.name: base.scores[b.name].file for b in suite if b.group == "ood" and b.name in base.scores}),
        policy=policy,
        base=base.digest,
        champion=champion,
        registry=registry,
        suite=suite,
        limits=limits,
        contamination=contamination,
    )


def _require_scored(policy: Checkpoint) -> None:
    """Raise InputError unless the files of ``policy`` are those that were scored."""
    present = read_manifest(Path(policy.path)).checkpoint_digest
    if present != policy.digest:
        raise InputError(
            f"checkpoint {policy.path} is {present[:SHORT_DIGEST]}, but the scores are of "
            f"{policy.digest[:SHORT_DIGEST]}: score it again"
        )


def _decide(
    opponent: "Mapping[str, pa.Table]",
    policy_answers: "Mapping[str, pa.Table]",
    base_answers: "Mapping[str, pa.Table]",
    *,
    policy: Checkpoint,
    base: str,
    champion: PolicyRecord | None,
    registry: Registry,
    suite: Sequence[Benchmark],
    limits: PromotionLimits,
    contamination: dict[str, int] | None,
) -> Decision:
    """Decide from answers to the same problems.

    Args:
        opponent, policy_answers, base_answers: GRADED tables by benchmark.
        base: digest of the base.
        contamination: problems found among the policy's targets, by benchmark; None where the targets are gone, which
            is a reason against the promotion too.
    """
    from core.schemas import is_sequential

    against = champion.checkpoint if champion else base
    test = test_identity(policy, against, policy_answers)
    budget, level = registry.error_budget(limits.error_rate), registry.level(test, limits.error_rate)
    comparison = compare_answers(
        opponent,
        policy_answers,
        suite=suite,
        level=level,
        limits=allowed_losses(registry, champion, base, suite, limits.max_ood_drop),
        sequential=is_sequential(policy_answers.values()),
    )
    gains = {name: _gain_over(table, policy_answers[name]) for name, table in base_answers.items()}
    above = {name: gain for name, (gain, _) in gains.items()}
    refusals, open_points, more = _points(comparison, level)
    refusals += _below_the_best(above, registry.best_above_base(base), limits.max_ood_drop)
    truncated = _truncated(policy_answers)
    refusals += _other_reasons(truncated, contamination, limits)
    promoted = not refusals and not open_points
    spent = level if registry.is_new(test) else 0.0
    return Decision(
        promoted=promoted,
        outcome="promoted" if promoted else "refused" if refusals else "not_decided",
        reasons=refusals + open_points,
        against=against,
        difference=comparison.gain.difference,
        ood={name: loss.difference for name, loss in comparison.losses.items()},
        above_base=above,
        surely_above_base={name: gain - Z90 * error for name, (gain, error) in gains.items()},
        truncated=truncated,
        contamination=contamination,
        test=test,
        level=level,
        left=budget.left if promoted else budget.left - spent,
        log_evidence=comparison.gain.log_value,
        answers=comparison.answers,
        more_answers=more if open_points and not refusals else None,
    )


def _gain_over(before: "pa.Table", after: "pa.Table") -> tuple[float, float]:
    """Return the mean change of the problems' scores from one GRADED table to another, and its standard error."""
    from evaluation.statistics.benchmark_scores import problem_scores
    from evaluation.statistics.intervals import mean_and_error

    old = problem_scores(before)
    changes = [fmean(scores) - fmean(old[i]) for i, scores in problem_scores(after).items() if i in old]
    return mean_and_error(changes) if changes else (0.0, 0.0)


def _below_the_best(above: Mapping[str, float], best: Mapping[str, float], limit: float) -> list[str]:
    """Return a refusal for each out-of-domain benchmark that would be more than ``limit`` below the best champion."""
    return [
        f"{name}: {100 * gain:+.1f} points from the base out of domain, but the best champion had at least "
        f"{100 * best.get(name, 0.0):+.1f}, of which at most {100 * limit:.1f} may be lost"
        for name, gain in above.items()
        if gain < best.get(name, 0.0) - limit
    ]


def _truncated(answers: "Mapping[str, pa.Table]") -> dict[str, float]:
    """Return the share of answers that were cut at the token limit, by benchmark."""
    return {
        name: table["finish_reason"].to_pylist().count("length") / table.num_rows for name, table in answers.items()
    }


def test_identity(policy: Checkpoint, against: str, answers: "Mapping[str, pa.Table]") -> str:
    """Return what is compared: two models on the same problems with the same sampling. It spends its level once."""
    sampling = sorted({recorded(table, "sampling") for table in answers.values()})
    return identity(policy.digest, against, {name: s.problems for name, s in policy.scores.items()}, sampling)


def allowed_losses(
    registry: Registry, champion: PolicyRecord | None, base: str, suite: Sequence[Benchmark], limit: float
) -> dict[str, float]:
    """Return how much may be lost out of domain: ``limit``, less what the champion is below the best one ever."""
    best, present = (
        registry.best_above_base(base),
        champion.decision.above_base if champion and champion.base == base else {},
    )
    return {
        b.name: limit - max(0.0, best.get(b.name, 0.0) - present.get(b.name, best.get(b.name, 0.0)))
        for b in suite
        if b.group == "ood"
    }


def _points(comparison: Match, level: float) -> tuple[list[str], list[str], int | None]:
    """Return the refusals, the open points, and the number of answers of each model that would decide these."""
    gain, refusals, open_points, needed = comparison.gain, [], [], []

    def more(evidence: Evidence) -> str:
        if evidence.needed is None:
            return "more answers like these would not decide it"
        needed.append(max(1, evidence.needed - evidence.answers))
        return f"about {about(needed[-1])} more answers of each model would decide it"

    if not gain.shown:
        points = f"{100 * gain.difference:+.1f} points in {gain.answers:,} answers"
        if gain.needed is None:
            refusals.append(f"no gain: {points}")
        else:
            evidence = f"{e_value(gain.log_value)}, and a promotion needs {e_value(-log(level))}"
            open_points.append(f"{points}: the evidence is {evidence}; {more(gain)}")
    for name, loss in comparison.losses.items():
        within = comparison.within(name)
        limit = f"{100 * loss.difference:+.1f} points out of domain, but at most {100 * comparison.limits[name]:.1f}"
        if within is False:
            refusals.append(f"{name}: {limit} may be lost")
        elif within is None and gain.shown:
            open_points.append(f"{name}: {limit} may be lost, which is not shown yet; {more(loss)}")
    return refusals, open_points, max(needed, default=None)


def _other_reasons(
    truncated: Mapping[str, float], contamination: Mapping[str, int] | None, limits: PromotionLimits
) -> list[str]:
    """Return why a policy must not be promoted, however much better its answers are."""
    reasons = [
        f"{name}: {share:.0%} of the samples were cut at the token limit, but at most {limits.max_truncated:.0%} may be"
        for name, share in truncated.items()
        if share > limits.max_truncated
    ]
    if contamination is None:
        return [
            *reasons,
            "the targets that the policy was trained on are gone, so they cannot be searched for benchmark problems",
        ]
    return reasons + [f"{name}: {n} problems are among the training targets" for name, n in contamination.items() if n]


def reason_without_comparison(policy: Checkpoint, champion: PolicyRecord) -> str | None:
    """Return why ``policy`` cannot replace ``champion``, whatever its scores; None if its scores decide."""
    if champion.checkpoint == policy.digest:
        return "it is already the champion"
    if policy.digest in champion.rejected:
        return "it was rolled back by hand, so only `luffy champion promote` can bring it back"
    return None
