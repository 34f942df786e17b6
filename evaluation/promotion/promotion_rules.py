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
from evaluation.promotion.records import Checkpoint, Contenders, Decision, PolicyRecord, PromotionLimits
from evaluation.sample_tables import read_scores, recorded

if TYPE_CHECKING:
    import pyarrow as pa

    from grading.contamination import Contamination

Z90 = 1.6448536269514722  # scipy.stats.norm.ppf(0.95)


def compare_with_champion(
    contenders: Contenders,
    champion: PolicyRecord | None,
    *,
    registry: Registry,
    suite: Sequence[Benchmark],
    limits: PromotionLimits,
    search: "Callable[[], Contamination | None]",
) -> Decision:
    """Decide on a policy by comparing it with the champion, or with its base if there is no champion yet.

    The chance of any false promotion, over all decisions of ``registry``, is at most ``limits.error_rate``.

    Args:
        contenders: The opponent is the champion with the answers with which it defends its place against the policy.
        search: Looks for the suite's problems among the targets of the policy; None where these are gone.
    """
    policy, base, opponent = contenders.policy, contenders.base, contenders.opponent
    against = champion.checkpoint if champion else base.digest
    if champion and (reason := reason_without_comparison(policy.digest, champion)):
        return Decision(promoted=False, against=against, reasons=[reason])
    scores = opponent.scores if opponent and opponent.digest == against else {} if champion else base.scores
    if (champion or opponent) and (missing := missing_scores(scores, policy.scores)):
        reason = (
            f"the champion has not answered the same problems of {', '.join(missing)}, because it came "
            "later, or the suite or evaluation.samples was another; materialize evals/policy and what follows it again"
        )
        return Decision(promoted=False, against=against, reasons=[reason])
    _require_scored(policy)
    overlap = search()
    counts = None if overlap is None else {name: overlap.by_benchmark().get(name, 0) for name in policy.scores}
    answers, theirs = (read_scores({name: of[name].file for name in policy.scores}) for of in (policy.scores, scores))
    test = test_identity(policy, against, answers)
    budget, level = registry.error_budget(limits.error_rate), registry.level(test, limits.error_rate)
    allowed = allowed_losses(registry, champion, base.digest, suite, limits.max_ood_drop)
    match = compare_answers(theirs, answers, suite, level, allowed)
    before = read_scores(
        {b.name: base.scores[b.name].file for b in suite if b.group == "ood" and b.name in base.scores}
    )
    gains = {name: _gain_over(table, answers[name]) for name, table in before.items()}
    above = {name: gain for name, (gain, _) in gains.items()}
    truncated = {name: t["finish_reason"].to_pylist().count("length") / t.num_rows for name, t in answers.items()}
    refusals, open_points, more = _points(match, level)
    refusals += _below_the_best(above, registry.best_above_base(base.digest), limits.max_ood_drop)
    refusals += _other_reasons(truncated, counts, limits)
    promoted = not refusals and not open_points
    spent = level if registry.is_new(test) and not promoted else 0.0
    return Decision(
        promoted=promoted,
        outcome="promoted" if promoted else "refused" if refusals else "not_decided",
        reasons=refusals + open_points,
        against=against,
        difference=match.gain.difference,
        ood={name: loss.difference for name, loss in match.losses.items()},
        above_base=above,
        surely_above_base={name: gain - Z90 * error for name, (gain, error) in gains.items()},
        truncated=truncated,
        contamination=counts,
        test=test,
        level=level,
        left=budget.left - spent,
        log_evidence=match.gain.log_value,
        answers=match.answers,
        more_answers=more if open_points and not refusals else None,
    )


def reason_without_comparison(policy: str, champion: PolicyRecord) -> str | None:
    """Return why the policy of this digest cannot replace ``champion``, whatever its scores; None if these decide."""
    if champion.checkpoint == policy:
        return "it is already the champion"
    if policy in champion.rejected:
        return "it was rolled back by hand, so only `luffy champion promote` can bring it back"
    return None


def test_identity(policy: Checkpoint, against: str, answers: "Mapping[str, pa.Table]") -> str:
    """Return what is compared: two models on the same problems with the same sampling. It spends its level once."""
    sampling = sorted({recorded(table, "sampling") for table in answers.values()})
    return identity(policy.digest, against, {name: s.problems for name, s in policy.scores.items()}, sampling)


def allowed_losses(
    registry: Registry, champion: PolicyRecord | None, base: str, suite: Sequence[Benchmark], limit: float
) -> dict[str, float]:
    """Return how much may be lost out of domain: ``limit``, less what the champion is below the best one ever."""
    best = registry.best_above_base(base)
    present = champion.decision.above_base if champion and champion.base == base else {}
    names = [benchmark.name for benchmark in suite if benchmark.group == "ood"]
    return {name: limit - max(0.0, best.get(name, 0.0) - present.get(name, best.get(name, 0.0))) for name in names}


def _require_scored(policy: Checkpoint) -> None:
    """Raise InputError unless the files of ``policy`` are those that were scored."""
    present = read_manifest(Path(policy.path)).checkpoint_digest
    if present != policy.digest:
        raise InputError(
            f"checkpoint {policy.path} is {present[:SHORT_DIGEST]}, but the scores are of "
            f"{policy.digest[:SHORT_DIGEST]}: score it again"
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
