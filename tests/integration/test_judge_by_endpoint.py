"""A judge behind a real vLLM server: its verdicts come back, are paid once, and end with the budget."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm")

from generation_runs import answered, served

from core.errors import InputError
from core.model.base_model import SHIPPED
from grading.verdict import Grade
from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Item

BUDGET = 1600  # tokens
ANSWERS = ("Lima", "It is Lima.", "Quito", "I do not know.")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The shipped model, which knows sums and nothing of judging: what it writes has the form that is asked for."""
    compact = '{"backend": "xgrammar", "disable_any_whitespace": true}'  # it would write blanks to the limit
    log = tmp_path_factory.mktemp("server") / "log"
    with served(SHIPPED, log, "--structured-outputs-config", compact) as url:
        yield url


def judged(url: str, cache: Path, **options: Any) -> list[Grade]:
    """The grades of `ANSWERS` by a judge that is opened for them."""
    values = {"type": "judge", "model": "tiny", "url": url, "cache": str(cache), "max_tokens": 256, **options}
    with open_verifier(parse_spec({"structured": True, **values}, "judge")) as verifier:
        fields = {"problem": "What is the capital of Peru?"}
        return verifier.verify_many([Item(answer, "Lima", fields) for answer in ANSWERS], thinking=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_judge_grades_is_paid_once_and_keeps_its_budget(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InputError, match=r"refuses the key \(401\); set OPENAI_API_KEY"):
        judged(endpoint, tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    before = answered(endpoint)
    grades = judged(endpoint, tmp_path)
    assert {str(grade.verdict) for grade in grades} <= {"correct", "partial", "wrong"}, grades
    assert all(0 <= grade.score <= 1 for grade in grades) and answered(endpoint) - before == len(ANSWERS)
    assert judged(endpoint, tmp_path) == grades
    assert answered(endpoint) - before == len(ANSWERS)  # what was answered is not asked for again

    # A budget that does not cover four answers, for a judge that has no answer of the other one.
    strict = judged(endpoint, tmp_path, rubric="Be strict.", budget_tokens=BUDGET)
    over = [grade for grade in strict if "the budget of the judge is spent" in grade.reason]
    assert 0 < len(over) < len(ANSWERS) and all(grade.score == 0 for grade in over)
    assert answered(endpoint) - before == 2 * len(ANSWERS) - len(over)
    with sqlite3.connect(tmp_path / "judge.sqlite") as ledger:
        rows = ledger.execute("select sum(tokens) from calls group by judge order by min(id)").fetchall()
    assert len(rows) == 2 and 0 < rows[1][0] <= BUDGET

    # Without the form, the model writes what it can, which is no score: an error, never right.
    free = judged(endpoint, tmp_path, structured=False)
    assert {str(grade.verdict) for grade in free} == {"error"}
    assert all(grade.reason.startswith("the judge gave no score") for grade in free)
