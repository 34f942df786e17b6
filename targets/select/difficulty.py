"""How often the base model solves each problem, and which problems are left out by it.

The file comes from ``python -m evaluation difficulty``: a row per problem with its ``pass_rate``. A problem is found by
its text, as duplicates are: blanks, case and math delimiters do not matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import InputError
from core.files import digest_bytes
from core.parquet.tables import read_table
from targets.select.dedupe import problem_digest
from targets.trace import Rejection, Trace

ADVICE = "give the file that python -m evaluation difficulty wrote"


@dataclass(frozen=True)
class Difficulty:
    """Pass rates by the digest of a problem, and the bounds between which it becomes a target; by default all do."""

    rates: Mapping[str, float] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    digest: str = ""

    def apply(self, trace: Trace) -> None:
        """Reject an accepted ``trace`` if the pass rate of its problem is out of bounds or not known."""
        if self.bounds is None or trace.reasons:
            return
        rate, (low, high) = self.rates.get(str(trace.problem_digest)), self.bounds
        if rate is None:
            trace.reject(Rejection("pass_rate", "the pass rate of the problem is not known"))
        elif not low <= rate <= high:
            trace.reject(
                Rejection("pass_rate", f"solved in {rate:.0%} of the samples (pass_rate: {low:g} to {high:g})")
            )


def read_difficulty(path: str | None, bounds: list[float] | None) -> Difficulty:
    """The pass rates in a file; InputError if it cannot be read or holds something else."""
    if (path is None) != (bounds is None):
        raise InputError("pass_rate and difficulty need each other: give both settings, or neither")
    if path is None or bounds is None:
        return Difficulty()
    import pyarrow as pa

    file = Path(path)
    table = read_table(file, pa.schema([("problem", pa.string()), ("pass_rate", pa.float64())]), ADVICE)
    rates = {}
    for number, row in enumerate(table.to_pylist(), start=1):
        if row["problem"] is None or row["pass_rate"] is None or not 0 <= row["pass_rate"] <= 1:
            raise InputError(f"{file}: row {number}: pass_rate {row['pass_rate']}: expected 0 to 1; {ADVICE}")
        rates[problem_digest(row["problem"])] = row["pass_rate"]
    return Difficulty(rates, (bounds[0], bounds[1]), digest_bytes(repr(sorted(rates.items())).encode()))
