"""Select targets among the accepted traces: by pass rates, a review, duplicates and the caps of sources."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from targets.select.dedupe import Duplicates
from targets.select.difficulty import Difficulty
from targets.select.review import Review
from targets.select.source_caps import SourceCaps
from targets.trace import Trace


class Selection:
    """Collects traces (`add`), decides among them (`decide`), and says of each what was decided (`decided`)."""

    def __init__(self, difficulty: Difficulty, review: Review, duplicates: Duplicates, caps: SourceCaps) -> None:
        self._difficulty, self._review = difficulty, review
        self._duplicates, self._caps = duplicates, caps
        self._unread = {*review.refused, *review.kept}  # ids that the review decides about

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

    def overruled(self, trace: Trace) -> bool:
        """Whether a filter rejected a trace that a reviewer wants to keep."""
        return bool(trace.reasons) and trace.id in self._review.kept
