"""The data and the grader of the tasks that ``python -m evaluation lm-eval`` of LUFFY on Dagster writes next to it.

lm-evaluation-harness calls `load` and `grade`. Answers are graded as in the project: set PYTHONPATH to a checkout of
it, and install math-verify, google-re2 and pydantic with lm_eval. A response that was cut at the token limit is
graded by its text, because the harness does not say that it was cut.
"""

import atexit
import json
from functools import cache
from pathlib import Path
from typing import Any

try:
    from grading.row_fields import row_fields
    from grading.verifiers.spec import open_verifier, read_spec
    from grading.verifiers.verifier import Verifier
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}: set PYTHONPATH to a checkout of LUFFY on Dagster for the grader of these tasks, and install "
        "math-verify, google-re2 and pydantic"
    ) from error


def load(file: str, **_: Any) -> dict[str, Any]:
    """Return the documents of a task; the harness also passes what the user gives with --metadata."""
    import datasets

    with Path(__file__).with_name(file).open(encoding="utf-8", newline="\n") as lines:
        return {"test": datasets.Dataset.from_list([json.loads(line) for line in lines])}


def grade(doc: dict[str, Any], results: list[list[str]]) -> dict[str, float]:
    """Return the share of right responses to one problem."""
    (responses,) = results
    golds = [doc["gold"], *doc["alternatives"]]
    scores = [max(_score(response, gold, doc) for gold in golds) for response in responses]
    return {"accuracy": sum(scores) / len(scores)}


def _score(response: str, gold: str, doc: dict[str, Any]) -> float:
    fields = row_fields(doc["benchmark"], doc["problem"], doc["fields"])
    return _verifier(doc["verifier"]).verify(response, gold, fields=fields, thinking=doc["thinking"]).score


@cache
def _verifier(spec: str) -> Verifier:
    verifier = open_verifier(read_spec(spec, "verifier"))
    atexit.register(verifier.close)
    return verifier
