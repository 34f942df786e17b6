"""Find duplicates among accepted traces as a preparation does."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from core.schemas import DECISION
from targets.select.dedupe import Duplicates, problem_text
from targets.select.near_duplicates import search_near
from targets.settings import TargetSettings
from targets.trace import Rejection, Trace


def find_duplicates(traces: Sequence[Trace], config: TargetSettings) -> dict[int, Rejection]:
    """Why each of the traces that do not survive goes, by its position."""
    texts = {position: problem_text(trace.problem or "") for position, trace in enumerate(traces)}
    with tempfile.TemporaryDirectory() as folder:
        duplicates = Duplicates(config, Path(folder))
        for trace in traces:
            duplicates.add(pa.Table.from_pylist([trace.decision_row()], schema=DECISION))
        groups = duplicates.find_problems()
        found = duplicates.decide(search_near(groups, texts, config.near_duplicate))
    why = map(Rejection, found.reasons, found.details.to_pylist(), found.kept.to_pylist())
    return dict(zip(found.positions.tolist(), why, strict=True))
