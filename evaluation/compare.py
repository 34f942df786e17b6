"""Several models side by side: each with its interval, and its paired difference from the first."""

from typing import TYPE_CHECKING

from evaluation.errors import InputError
from evaluation.statistics import paired_difference, summarize

if TYPE_CHECKING:
    import pyarrow as pa


def comparison_text(results: "dict[str, dict[str, pa.Table]]") -> str:
    """A table for the terminal from {model: {benchmark: GRADED}}; the first model is the baseline.

    Raises InputError if two results share no benchmark, or hold different problems of one.
    """
    (first, baseline), *others = results.items()
    lines = []
    for benchmark, graded in baseline.items():
        lines.append(f"{benchmark}\n  {first}: {summarize(graded).to_text()}")
        for name, tables in others:
            if benchmark not in tables:
                lines.append(f"  {name}: not evaluated")
                continue
            difference = paired_difference(graded, tables[benchmark])
            lines.append(f"  {name}: {summarize(tables[benchmark]).to_text()}")
            lines.append(
                f"    difference {100 * difference.mean:+.1f} points "
                f"[{100 * difference.low:+.1f}, {100 * difference.high:+.1f}], p = {difference.p_value:.3g} "
                f"({difference.test}); 80% power from {100 * difference.detectable:.1f} points"
            )
    for name, tables in others:
        if not baseline.keys() & tables.keys():
            raise InputError(f"{name}: shares no benchmark with {first}; grade the same suite for both")
    return "\n".join(lines)
