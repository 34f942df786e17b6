"""Select targets among the accepted traces: by what files say of them, lengths, duplicates and caps of sources.

The lengths are cached with the decisions of the filters, so that no trace is filtered again for another limit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from targets.config import PrepareConfig
from targets.select.dedupe import COLUMNS, Duplicates, SearchPairs
from targets.select.learned import Learned, read_learned
from targets.select.pass_rates import Difficulty, read_difficulty
from targets.select.review import Review, read_review
from targets.select.source_caps import SourceCaps
from targets.trace import Rejection, Trace

if TYPE_CHECKING:
    import pyarrow as pa

KEY_COLUMNS = (*COLUMNS, "prompt_tokens", "target_tokens", "has_log_probs")
KEPT, CHOSEN_AGAINST, REPEATED = 0, 1, 2  # outcomes of accepted traces; REPEATED: see `Outcome.reasons`


class Choices(NamedTuple):
    """What the files of the settings say about traces."""

    difficulty: Difficulty
    review: Review
    learned: Learned

    @classmethod
    def read(cls, config: PrepareConfig) -> "Choices":
        """Read the files; InputError for one that cannot be read or holds something else."""
        return cls(
            read_difficulty(config.difficulty, config.pass_rate),
            read_review(config.review),
            read_learned(config.ledger, config.ledger_drop),
        )

    def digests(self) -> dict[str, str]:
        """Of what each file decides, under names for the metadata of the result."""
        digests = {"review_digest": self.review.digest, "difficulty_digest": self.difficulty.digest}
        return digests | ({"ledger_digest": self.learned.digest} if self.learned.digest else {})

    def apply(self, trace: Trace, config: PrepareConfig) -> None:
        """Reject ``trace`` for its lengths, its pass rate, by a reviewer, or by an earlier training."""
        apply_lengths(trace, config)
        self.difficulty.apply(trace)
        self.review.apply(trace)
        self.learned.apply(trace)

    def rejects(self, keys: "pa.Table", config: PrepareConfig) -> np.ndarray:
        """Whether `apply` rejects each of the accepted traces with `KEY_COLUMNS` ``keys``."""
        rejects = over_lengths(keys, config) | self.difficulty.rejects(keys["text_key"].to_numpy())
        if against := {**self.review.refused, **self.learned.dropped}:
            rejects |= np.array([identity in against for identity in keys["id"].to_pylist()], bool)
        return rejects


@dataclass(frozen=True)
class Outcome:
    """What becomes of the accepted traces of a piece, in order; of those that are `REPEATED`, why."""

    states: np.ndarray  # int8
    reasons: Sequence[Rejection]

    @property
    def kept(self) -> int:
        return int((self.states == KEPT).sum())


class Selection:
    """Collects the keys of pieces (`add`), decides among their traces (`decide`), and says what was decided."""

    def __init__(self, config: PrepareConfig, choices: Choices, folder: Path) -> None:
        self._config, self._choices = config, choices
        self._duplicates, self._caps = Duplicates(config, folder), SourceCaps(config)
        self._states: list[np.ndarray] = []

    def add(self, keys: "pa.Table", source: int) -> None:
        """Collect the accepted traces of a piece of the source with this number, with their `KEY_COLUMNS`."""
        import pyarrow as pa

        against = self._choices.rejects(keys, self._config)
        self._states.append(np.where(against, CHOSEN_AGAINST, KEPT).astype(np.int8))
        left = keys.filter(pa.array(~against))
        self._duplicates.add(left)
        self._caps.add(left, source)

    def left(self) -> list[np.ndarray]:
        """The numbers of the accepted traces of each piece among which the positions count."""
        return [np.flatnonzero(states == KEPT) for states in self._states]

    def decide(self, search: SearchPairs, search_meaning: SearchPairs) -> list[Outcome]:
        """Choose among the traces; the outcome of each piece.

        Args:
            search: finds the near duplicates in groups of problems, by the positions of their first traces among those
                that the choices leave.
            search_meaning: finds the semantic duplicates, if the settings compare meanings.
        """
        repeated = self._duplicates.decide(search(self._duplicates.find_problems()), search_meaning)
        reasons = repeated.reasons
        excess = self._caps.draw(repeated.positions)
        over = list(excess)
        positions = np.concatenate([repeated.positions, np.array(over, np.int64)])
        order = np.argsort(positions, kind="stable")
        positions = positions[order]
        outcomes, begin, first = [], 0, 0
        for states in self._states:
            left = np.flatnonzero(states == KEPT)
            last = int(np.searchsorted(positions, begin + len(left)))
            states[left[positions[first:last] - begin]] = REPEATED
            why = [
                Rejection(reasons[n], repeated.details[n].as_py(), repeated.kept[n].as_py())
                if n < len(reasons)
                else excess[over[n - len(reasons)]]
                for n in order[first:last].tolist()
            ]
            outcomes.append(Outcome(states, why))
            begin, first = begin + len(left), last
        return outcomes


def apply_lengths(trace: Trace, config: PrepareConfig) -> None:
    """Reject an accepted ``trace`` for each limit that it exceeds."""
    for rejection in () if trace.reasons else list(_rejections(trace, config)):
        trace.reject(rejection)


def over_lengths(keys: "pa.Table", config: PrepareConfig) -> np.ndarray:
    """Whether `apply_lengths` rejects each of the accepted traces with these columns of `core.schemas.DECISION`."""
    over = keys["prompt_tokens"].to_numpy() > config.max_prompt_tokens
    over |= keys["target_tokens"].to_numpy() > config.max_target_tokens
    return over | ~keys["has_log_probs"].to_numpy() if config.require_log_probs else over


def _rejections(trace: Trace, config: PrepareConfig) -> Iterator[Rejection]:
    if over := _over(trace.prompt_tokens, config.max_prompt_tokens):
        yield Rejection("prompt_too_long", over)
    if over := _over(trace.target_tokens, config.max_target_tokens):
        yield Rejection("target_too_long", over)
    if config.require_log_probs and not trace.has_log_probs:
        detail = "the source has none, or they are of other tokens than those that the policy is trained on"
        yield Rejection("no_log_probs", detail)


def _over(tokens: int | None, limit: int) -> str | None:
    return f"{tokens} tokens (limit {limit})" if tokens is not None and tokens > limit else None
