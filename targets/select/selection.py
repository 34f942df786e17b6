"""Select targets among the accepted traces: by what files say about them, duplicates and the caps of sources."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from targets.config import PrepareConfig
from targets.select.dedupe import Duplicates
from targets.select.difficulty import Difficulty, read_difficulty
from targets.select.learned import Learned, read_learned
from targets.select.review import Review, read_review
from targets.select.source_caps import SourceCaps
from targets.trace import Trace


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


class Selection:
    """Collects traces (`add`), decides among them (`decide`), and says of each what was decided (`decided`)."""

    def __init__(self, choices: Choices, duplicates: Duplicates, caps: SourceCaps) -> None:
        self._difficulty, self._review, self._learned = choices
        self._duplicates, self._caps = duplicates, caps
        self._unread = {*self._review.refused, *self._review.kept}  # ids that the review decides about

    def add(self, traces: Sequence[Trace], source: int) -> None:
        """Collect traces of the source with this number, in order."""
        for trace in traces:
            self._apply(trace)
            self._unread.discard(trace.id)
        accepted = [trace for trace in traces if not trace.reasons]
        self._duplicates.add(accepted)
        self._caps.add(accepted, source)

    def decide(self, read: int) -> None:
        """Choose among the ``read`` traces; InputError if the review decides about none of them."""
        self._review.check_ids(read, self._unread)
        self._duplicates.decide()
        self._caps.draw(position for position, _ in self._duplicates.rejections())

    def decided(self, traces: Iterable[Trace]) -> Iterator[Trace]:
        """Yield ``traces`` in the same order; those that do not become targets have a reason."""
        rejections = heapq.merge(self._duplicates.rejections(), self._caps.rejections(), key=itemgetter(0))
        upcoming = next(rejections, None)
        position = 0  # among the accepted ones
        for trace in traces:
            self._apply(trace)
            if not trace.reasons:
                if upcoming is not None and upcoming[0] == position:
                    trace.reject(upcoming[1])
                    upcoming = next(rejections, None)
                position += 1
            yield trace

    def _apply(self, trace: Trace) -> None:
        self._difficulty.apply(trace)
        self._review.apply(trace)
        self._learned.apply(trace)

    def overruled(self, trace: Trace) -> bool:
        """Whether a filter rejected a trace that a reviewer wants to keep."""
        return bool(trace.reasons) and trace.id in self._review.kept
