"""Leave out targets by what an earlier training made of them: the verdicts of its ledger, in ``targets.parquet``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import InputError
from core.files import digest_bytes
from core.ledger_verdicts import LEARNED_FILE, VERDICTS
from core.parquet import read_table
from core.schemas import LEARNED
from targets.trace import Rejection, Trace

ADVICE = f"give the folder of a training run that has {LEARNED_FILE}, or that file"


@dataclass(frozen=True)
class Learned:
    """The verdicts of traces that are left out, by id; none by default."""

    dropped: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""

    def apply(self, trace: Trace) -> None:
        """Reject an accepted ``trace`` that an earlier training gave one of the verdicts."""
        if not trace.reasons and (verdict := self.dropped.get(trace.id)):
            trace.reject(Rejection("ledger", f"{verdict}: {VERDICTS[verdict]}"))


def learned_file(path: str | Path) -> Path:
    """The table of a run's folder, or ``path`` if it is that file."""
    return Path(path) / LEARNED_FILE if Path(path).is_dir() else Path(path)


def read_learned(path: str | None, drop: Sequence[str]) -> Learned:
    """The verdicts ``drop`` of the run or file at ``path``; InputError if it cannot be read or holds something else."""
    if path is None:
        return Learned()
    import pyarrow as pa

    file = learned_file(path)
    table = read_table(file, pa.schema([LEARNED.field("target"), LEARNED.field("verdict")]), ADVICE)
    dropped = {}
    for number, row in enumerate(table.to_pylist(), start=1):
        if row["verdict"] not in VERDICTS:
            expected = ", ".join(VERDICTS)
            raise InputError(f"{file}: row {number}: verdict {row['verdict']!r}: expected {expected}; {ADVICE}")
        if row["verdict"] in drop:
            dropped[row["target"]] = row["verdict"]
    return Learned(dropped, digest_bytes(repr(sorted(dropped.items())).encode()))
