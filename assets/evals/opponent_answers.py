"""The answers of a policy and of the model that it has to beat, from which registry/champion decides.

The opponent is the champion, or the base if there is no champion yet. A champion won with answers that happened to be
good, so it defends its place with other answers, which are drawn once with a seed of their own. The base needs no other
answers, because no answer ever chose it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from assets.evals.answers import Answers, Sampler
from assets.models import KEY as BASE
from assets.shared.luffy import Luffy
from assets.shared.references import ModelReference, Reference
from core.code_digest import SHORT_DIGEST, identity
from core.errors import InputError
from core.model.lineage_file import read_manifest
from evaluation.benchmarks.suite import Benchmark
from evaluation.generation.requests import Counts
from evaluation.promotion.answer_counts import answers_by_problem, first_round, most_answers, next_round
from evaluation.promotion.champions import Registry, missing_scores
from evaluation.promotion.match import Match, compare_answers, smallest_gain
from evaluation.promotion.promotion_rules import allowed_losses, reason_without_comparison, test_identity
from evaluation.promotion.records import Checkpoint, PolicyRecord, ScoreFile
from evaluation.sample_tables import read_scores

Pair = tuple[Answers, Answers | None]  # of a policy, and of its opponent to the same problems if it needs one


@dataclass(frozen=True)
class AnswersOfPolicy:
    """How the answers of a policy to ``benchmarks`` are drawn, and its opponent's if its own are not enough."""

    luffy: Luffy
    sampler: Sampler
    policy: Reference
    benchmarks: Sequence[Benchmark]

    def drawn(self) -> Pair:
        """Draw the answers; with a fixed number of them, say before which gain they can show."""
        config, champion = self.luffy.settings.evaluation, self.champion
        if champion and reason_without_comparison(self.policy.digest, champion):
            return self._answers(self.policy, config.seed, self._counts_again(champion)), None
        if config.until_decided:
            return self._until_decided()
        self.sampler.context.log.warning(self._what_can_be_shown())
        answers = self._answers(self.policy, config.seed)
        return answers, self._answers(*self._opponent()) if champion else None

    def _answers(self, model: Reference, seed: int, counts: Counts | None = None) -> Answers:
        return self.sampler.answers(model, [benchmark.name for benchmark in self.benchmarks], seed, counts)

    @cached_property
    def registry(self) -> Registry:
        return Registry(self.luffy.storage.path)

    @cached_property
    def champion(self) -> PolicyRecord | None:
        return self.registry.champion()

    @cached_property
    def problems(self) -> Mapping[str, Sequence[str]]:
        """The ids of the problems, by benchmark."""
        problems: dict[str, list[str]] = {}
        for row in self.sampler.problems.select(["benchmark", "id"]).to_pylist():
            problems.setdefault(row["benchmark"], []).append(row["id"])
        return problems

    def _what_can_be_shown(self) -> str:
        """Return which gain in domain a fixed number of answers can show; the answers are not drawn yet."""
        samples, main = self.luffy.settings.evaluation.samples, [b for b in self.benchmarks if b.group == "evals"]
        if not main:
            return "no benchmark in domain is selected, so these answers cannot promote a policy"
        counts = [len(self.problems[b.name]) * int(samples or b.samples) for b in main]
        gain = smallest_gain(counts, self.registry.error_budget(self.luffy.settings.promotion.error_rate).level)
        can = "no gain can be shown" if gain is None else f"no gain below {100 * gain:.1f} points can be shown"
        return (
            f"with {sum(counts):,} answers in domain {can}; evaluation.samples=until_decided draws as many as it takes"
        )

    def _opponent(self) -> tuple[Reference, int]:
        """Return the opponent and the seed of its answers; InputError unless the champion is the one promoted."""
        seed, champion = self.luffy.settings.evaluation.seed, self.champion
        if champion is None:
            return self.luffy.storage.read_reference(BASE.to_user_string(), ModelReference), seed
        if read_manifest(Path(champion.policy)).checkpoint_digest != champion.checkpoint:
            raise InputError(
                f"{champion.policy}: not the champion {champion.checkpoint[:SHORT_DIGEST]} any more, which has to "
                "answer as the policy does; restore it, or promote another policy by hand"
            )
        return Reference(path=champion.policy, digest=champion.checkpoint), defence_seed(seed, champion.checkpoint)

    def _until_decided(self) -> Pair:
        """Draw the answers of both models in rounds, until they decide."""
        ours, (opponent, seed) = self.luffy.settings.evaluation.seed, self._opponent()
        most = most_answers(self.benchmarks, {name: len(ids) for name, ids in self.problems.items()})
        number = first_round(self.benchmarks)
        while True:
            counts = self._counts(number)
            pair = self._answers(self.policy, ours, counts), self._answers(opponent, seed, counts)
            match = self._match(*pair, most)
            shown = f"{100 * match.gain.difference:+.1f} points in domain, {'' if match.gain.shown else 'not '}shown"
            self.sampler.context.log.info(f"{match.answers:,} answers of each model: {shown}")
            if (more := next_round(match, number)) is None:
                return pair
            number = more

    def _match(self, answers: Answers, opponent: Answers, most: Mapping[str, int]) -> Match:
        ours, theirs = (read_scores({n: str(file) for n, file in of.graded.items()}) for of in (answers, opponent))
        policy = Checkpoint(path=self.policy.path, digest=self.policy.digest, scores=self._scores())
        base, limits = read_manifest(Path(self.policy.path)).base_model.digest, self.luffy.settings.promotion
        level = self.registry.level(test_identity(policy, opponent.model.digest, ours), limits.error_rate)
        allowed = allowed_losses(self.registry, self.champion, base, self.benchmarks, limits.max_ood_drop)
        return compare_answers(theirs, ours, self.benchmarks, level, allowed, most)

    def _counts_again(self, champion: PolicyRecord) -> Counts | None:
        """Return how often a policy that no answer can promote gets each problem: as often as it did, or in one round.

        None with a fixed number of answers.
        """
        if not self.luffy.settings.evaluation.until_decided:
            return None
        scores = self._scores()
        if champion.checkpoint == self.policy.digest and not missing_scores(champion.scores, scores):
            tables = read_scores({name: champion.scores[name].file for name in scores})
            return {name: Counter(table["id"].to_pylist()) for name, table in tables.items()}
        return self._counts(first_round(self.benchmarks))

    def _counts(self, answers: Mapping[str, int]) -> Counts:
        first, seed = first_round(self.benchmarks), self.luffy.settings.evaluation.seed
        return {
            name: answers_by_problem(self.problems[name], first[name], count, f"{seed}/{name}")
            for name, count in answers.items()
        }

    def _scores(self) -> dict[str, ScoreFile]:
        """Return the options with which a model answers the benchmarks as the policy does."""
        digests = self.sampler.suite.digests
        return {b.name: ScoreFile(file="", problems=digests[b.name], sequential=True) for b in self.benchmarks}


def defence_seed(seed: int, champion: str) -> int:
    """Return the seed of the answers with which a champion defends its place; it won with answers of another seed."""
    return int(identity("defence", seed, champion)[:8], 16)
