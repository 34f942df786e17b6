"""Grade stored samples with a second grader, to find the verdicts that need a look.

There are two second graders. "whole-text" is the rule of LUFFY's published evaluation: math-verify on everything after
the first ``</think>``, which also accepts answers that were never boxed and thoughts that never ended. "prime" is the
sympy grader that verl includes. ``python -m research.second_grader NAME LIMIT_SECONDS`` is the worker that runs one.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from pipelines.api import Reply, WorkerPool, serve, text_after_thoughts, whole_text

if TYPE_CHECKING:
    import pyarrow as pa

EXAMPLES = 5  # number for each kind of disagreement in the text
WORKERS = 2


def prime(answer: str, gold: str) -> tuple[str, str]:
    """Apply PRIME's grader to an extracted answer."""
    from verl.utils.reward_score.prime_math import grade_answer

    return ("correct", "equal") if grade_answer(answer, gold) else ("wrong", "not equal")


def prepare(name: str) -> Reply:
    """Return the grader of this name, after a first pair for which it imports its libraries."""
    grader = {"whole-text": whole_text.compare, "prime": prime}[name]
    grader("x+1", "\\frac{1}{2}")
    return grader


def disagreements(graded: "Mapping[str, pa.Table]", second: str, *, limit_s: float = 5.0) -> "pa.Table":
    """Return the rows of GRADED tables with which the grader ``second`` disagrees, with its verdict and reason.

    A verdict counts as right or not right: truncated, unanswered and wrong are the same here. The metadata holds the
    number of rows that were compared.
    """
    import importlib.util

    import pyarrow as pa

    if second == "prime" and importlib.util.find_spec("verl") is None:
        raise InputError("the grader prime comes with verl: run this in the training interpreter (.venv-train)")
    rows = [row for table in graded.values() for row in table.to_pylist()]
    questions = [(_stated(row, second), row["gold"]) for row in rows]
    pool = WorkerPool(WORKERS, limit_s, ("research.second_grader", second))
    try:
        with ThreadPoolExecutor(WORKERS) as threads:
            unique = list(dict.fromkeys(question for question in questions if question[0] is not None))
            replies = dict(zip(unique, threads.map(lambda question: pool.ask(*question), unique), strict=True))
    finally:
        pool.close()
    nothing = ("wrong", "no answer to compare")
    differing = [
        {**row, "second_verdict": verdict, "second_reason": reason}
        for row, question in zip(rows, questions, strict=True)
        for verdict, reason in [replies.get(question, nothing)]
        if (row["verdict"] == "correct") != (verdict == "correct")
    ]
    schema = next(iter(graded.values())).schema
    for name in ("second_verdict", "second_reason"):
        schema = schema.append(pa.field(name, pa.string()))
    return pa.Table.from_pylist(differing, schema=schema.with_metadata({"compared": str(len(rows)), "second": second}))


def disagreements_text(table: "pa.Table") -> str:
    """Describe how many verdicts differ, by kind, with examples."""
    total, second = int(table.schema.metadata[b"compared"]), table.schema.metadata[b"second"].decode()
    rows = table.to_pylist()
    lines = [f"{len(rows)} of {total} verdicts differ from the grader {second} ({len(rows) / total:.2%})"]
    kinds = Counter((row["verdict"], row["second_verdict"]) for row in rows)
    for (ours, theirs), count in kinds.most_common():
        lines.append(f"{count:5} {ours.replace('_', ' ')} here, {theirs} there")
        chosen = [row for row in rows if (row["verdict"], row["second_verdict"]) == (ours, theirs)][:EXAMPLES]
        for row in chosen:
            extracted = "nothing" if row["extracted"] is None else row["extracted"]
            lines.append(
                f"      {row['benchmark']} {row['id']}/{row['sample']}: gold {_short(row['gold'])}, answer "
                f"{_short(extracted)} ({row['reason']}; there: {_short(row['second_reason'])})"
            )
    return "\n".join(lines)


def _stated(row: Mapping[str, Any], second: str) -> str | None:
    """Return the text (for "prime", the extracted answer) that the second grader compares; None without an answer."""
    if second == "prime":
        return row["extracted"]
    return text_after_thoughts(row["response"] or "", thinking=False)


def _short(text: str | None, longest: int = 60) -> str:
    text = " ".join((text or "").split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


if __name__ == "__main__":
    serve(float(sys.argv[2]), partial(prepare, sys.argv[1]))
