"""The answers of a policy and of the model that it has to beat, from which registry/champion decides.

The opponent is the champion, or the base if there is no champion yet. A champion won with answers that happened to be
good, so it defends its place with other answers, which are drawn once with a seed of their own. The base needs no other
answers, because no answer ever chose it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg

from assets.models import KEY as BASE
from assets.shared.references import ModelReference, Reference, SuiteReference
from assets.shared.storage import Storage
from core.code_digest import SHORT_DIGEST, identity
from core.errors import InputError
from core.model.lineage_file import read_manifest
from evaluation.benchmarks.suite import Benchmark
from evaluation.generation.requests import Counts
from evaluation.promotion.answer_counts import answers_by_problem, first_round, most_answers, next_round
from evaluation.promotion.champions import Registry, missing_scores
from evaluation.promotion.match import Match, compare_answers, smallest_gain
from evaluation.promotion.promotion_rules import allowed_losses, reason_without_comparison, test_identity
from evaluation.promotion.records import Checkpoint, PolicyRecord, PromotionLimits, ScoreFile
from evaluation.settings import EvaluationSettings


@dataclass(frozen=True)
class Answers:
    """The files of a model's samples, and those of their verdicts, by benchmark."""

    samples: Mapping[str, Path]
    graded: Mapping[str, Path]


@dataclass(frozen=True)
class Contest:
    """The answers of a policy, and those of its opponent to the same problems; None if it needs none."""

    policy: Answers
    opponent: Reference | None = None
    opponent_answers: Answers = field(default_factory=lambda: Answers({}, {}))


Draw = Callable[[Reference, int, Counts | None], Answers]  # a model's answers, with a seed and counts


def hold_contest(
    context: dg.AssetExecutionContext,
    policy: Reference,
    suite: SuiteReference,
    benchmarks: Sequence[Benchmark],
    config: EvaluationSettings,
    promotion: PromotionLimits,
    storage: Storage,
    draw: Draw,
) -> Contest:
    """Draw the answers of ``policy`` to ``benchmarks``, and those of its opponent if its own are not enough."""
    registry = Registry(storage.path)
    champion = registry.champion()
    settled = champion is not None and reason_without_comparison(_checkpoint(policy), champion) is not None
    if config.until_decided:
        if settled:
            return Contest(draw(policy, config.seed, _counts_again(policy, champion, benchmarks, suite, config)))
        rounds = _Rounds(registry, champion, benchmarks, suite, config, promotion)
        opponent = (
            _as_reference(champion) if champion else storage.read_reference(BASE.to_user_string(), ModelReference)
        )
        return rounds.play(context, policy, opponent, draw)
    if not settled:
        level = registry.error_budget(promotion.error_rate).level
        context.log.warning(_what_can_be_shown(_problems(suite), benchmarks, config, level))
    answers = draw(policy, config.seed, None)
    if champion is None or settled:
        return Contest(answers)
    opponent = _as_reference(champion)
    return Contest(answers, opponent, draw(opponent, defence_seed(config.seed, opponent), None))


def _what_can_be_shown(
    problems: Mapping[str, Sequence[str]], benchmarks: Sequence[Benchmark], config: EvaluationSettings, level: float
) -> str:
    """Return which gain in domain a fixed number of answers can show; the answers are not drawn yet."""
    counts = [len(problems[b.name]) * int(config.samples or b.samples) for b in benchmarks if b.group == "evals"]
    if not counts:
        return "no benchmark in domain is selected, so these answers cannot promote a policy"
    gain = smallest_gain(counts, level)
    can = "no gain can be shown" if gain is None else f"no gain below {100 * gain:.1f} points can be shown"
    return f"with {sum(counts):,} answers in domain {can}; evaluation.samples=until_decided draws as many as it takes"


def defence_seed(seed: int, champion: Reference) -> int:
    """Return the seed of the answers with which a champion defends its place; it won with answers of another seed."""
    return int(identity("defence", seed, champion.digest)[:8], 16)


@dataclass(frozen=True)
class _Rounds:
    """The answers of a policy and its opponent, which are drawn in rounds until they decide."""

    registry: Registry
    champion: PolicyRecord | None
    benchmarks: Sequence[Benchmark]
    suite: SuiteReference
    config: EvaluationSettings
    promotion: PromotionLimits

    def play(self, context: dg.AssetExecutionContext, policy: Reference, opponent: Reference, draw: Draw) -> Contest:
        seed = defence_seed(self.config.seed, opponent) if self.champion else self.config.seed
        problems = _problems(self.suite)
        most = most_answers(self.benchmarks, {name: len(ids) for name, ids in problems.items()})
        answers = first_round(self.benchmarks)
        while True:
            counts = _counts(problems, answers, self.benchmarks, self.config.seed)
            contest = Contest(draw(policy, self.config.seed, counts), opponent, draw(opponent, seed, counts))
            comparison = self._compare(contest, policy, most)
            difference = f"{100 * comparison.gain.difference:+.1f} points in domain"
            found = "shown" if comparison.gain.shown else "not shown"
            context.log.info(f"{comparison.answers:,} answers of each model: {difference}, {found}")
            if (more := next_round(comparison, answers)) is None:
                return contest
            answers = more

    def _compare(self, contest: Contest, policy: Reference, most: Mapping[str, int]) -> Match:
        from evaluation.sample_tables import read_scores

        opponent, answers = (
            read_scores({name: str(file) for name, file in files.graded.items()})
            for files in (contest.opponent_answers, contest.policy)
        )
        base = read_manifest(Path(policy.path)).base_model.digest
        assert contest.opponent is not None
        checkpoint = _checkpoint(policy, _to_answer(self.suite, self.benchmarks, sequential=True))
        test = test_identity(checkpoint, contest.opponent.digest, answers)
        return compare_answers(
            opponent,
            answers,
            suite=self.benchmarks,
            level=self.registry.level(test, self.promotion.error_rate),
            limits=allowed_losses(self.registry, self.champion, base, self.benchmarks, self.promotion.max_ood_drop),
            most=most,
            sequential=True,
        )


def _counts_again(
    policy: Reference,
    champion: PolicyRecord | None,
    benchmarks: Sequence[Benchmark],
    suite: SuiteReference,
    config: EvaluationSettings,
) -> Counts:
    """Return how often a policy that no answer can promote gets each problem: as often as it did, or in one round."""
    from evaluation.sample_tables import read_scores

    problems = _to_answer(suite, benchmarks, sequential=True)
    if champion and champion.checkpoint == policy.digest and not missing_scores(champion.scores, problems):
        tables = read_scores({name: champion.scores[name].file for name in problems})
        return {name: Counter(table["id"].to_pylist()) for name, table in tables.items()}
    return _counts(_problems(suite), first_round(benchmarks), benchmarks, config.seed)


def _counts(
    problems: Mapping[str, Sequence[str]], answers: Mapping[str, int], benchmarks: Sequence[Benchmark], seed: int
) -> Counts:
    first = first_round(benchmarks)
    return {
        name: answers_by_problem(problems[name], first[name], count, f"{seed}/{name}")
        for name, count in answers.items()
    }


def _problems(suite: SuiteReference) -> dict[str, list[str]]:
    """Return the ids of the problems, by benchmark."""
    from evaluation.sample_tables import read_suite_file

    problems: dict[str, list[str]] = {}
    for row in read_suite_file(Path(suite.path)).select(["benchmark", "id"]).to_pylist():
        problems.setdefault(row["benchmark"], []).append(row["id"])
    return problems


def _to_answer(
    suite: SuiteReference, benchmarks: Sequence[Benchmark], *, sequential: bool = False
) -> dict[str, ScoreFile]:
    """Return the options with which a model answers ``benchmarks`` so that its answers compare with the policy's."""
    return {b.name: ScoreFile(file="", problems=suite.digests[b.name], sequential=sequential) for b in benchmarks}


def _as_reference(champion: PolicyRecord) -> Reference:
    """Return the champion's model; InputError unless it is the one that was promoted."""
    if read_manifest(Path(champion.policy)).checkpoint_digest != champion.checkpoint:
        raise InputError(
            f"{champion.policy}: not the champion {champion.checkpoint[:SHORT_DIGEST]} any more, which has to answer "
            "beside the policy; restore it, or promote another policy by hand"
        )
    return Reference(path=champion.policy, digest=champion.checkpoint)


def _checkpoint(model: Reference, scores: Mapping[str, ScoreFile] | None = None) -> Checkpoint:
    return Checkpoint(path=model.path, digest=model.digest, scores=dict(scores or {}))
