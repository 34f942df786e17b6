"""Apply pass rates of the base model: a column of the targets, and bounds that leave problems out.

The file comes from ``python -m evaluation difficulty``: a row per problem with its ``pass_rate``. A problem is found by
its text, as duplicates are: blanks, case and math delimiters do not matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError
from core.files import digest_bytes
from core.parquet import read_table
from targets.select.dedupe import key_of, problem_digest
from targets.trace import Rejection, Trace

if TYPE_CHECKING:
    import numpy as np

ADVICE = "give the file that python -m evaluation difficulty wrote"


@dataclass(frozen=True)
class Difficulty:
    """Pass rates by the digest of a problem, and the bounds between which it becomes a target; by default all do."""

    rates: Mapping[str, float] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    digest: str = ""

    def apply(self, trace: Trace) -> None:
        """Give an accepted ``trace`` the pass rate of its problem; reject it if that is out of bounds or not known."""
        if trace.reasons:
            return
        rate = self._by_key.get(trace.text_key or 0)
        if self.bounds is None:
            return
        low, high = self.bounds
        if rate is None:
            trace.reject(Rejection("pass_rate", "the pass rate of the problem is not known"))
        elif not low <= rate <= high:
            trace.reject(
                Rejection("pass_rate", f"solved in {rate:.0%} of the samples (pass_rate: {low:g} to {high:g})")
            )

    def rates_of(self, text_keys: "np.ndarray") -> list[float | None]:
        """The pass rates of the problems with these keys."""
        return [self._by_key.get(key) for key in text_keys.tolist()]

    def rejects(self, text_keys: "np.ndarray") -> "np.ndarray":
        """Whether `apply` rejects each of the accepted traces with these keys."""
        import numpy as np

        if self.bounds is None:
            return np.zeros(len(text_keys), bool)
        low, high = self.bounds
        return np.array([rate is None or not low <= rate <= high for rate in self.rates_of(text_keys)], bool)

    @cached_property
    def _by_key(self) -> dict[int, float]:
        return {key_of(digest): rate for digest, rate in self.rates.items()}


def read_difficulty(path: str | None, bounds: list[float] | None) -> Difficulty:
    """The pass rates in a file; InputError if it cannot be read or holds something else."""
    if path is None:
        if bounds is not None:
            raise InputError(
                "pass_rate needs the pass rates of the problems: give their file with difficulty, or measure them with "
                "targets/difficulty (section difficulty of the profile)"
            )
        return Difficulty()
    import pyarrow as pa

    file = Path(path)
    table = read_table(file, pa.schema([("problem", pa.string()), ("pass_rate", pa.float64())]), ADVICE)
    rates = {}
    for number, row in enumerate(table.to_pylist(), start=1):
        if row["problem"] is None or row["pass_rate"] is None or not 0 <= row["pass_rate"] <= 1:
            raise InputError(f"{file}: row {number}: pass_rate {row['pass_rate']}: expected 0 to 1; {ADVICE}")
        rates[problem_digest(row["problem"])] = row["pass_rate"]
    digest = digest_bytes(repr(sorted(rates.items())).encode())
    return Difficulty(rates, None if bounds is None else (bounds[0], bounds[1]), digest)
