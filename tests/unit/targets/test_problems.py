"""The problems that the base model is measured on."""

from pathlib import Path
from typing import Any

from core.schemas import BENCHMARK
from targets.problems import read_problems
from targets.settings import build_config


def problems(source: Path, tokenizer: Path, limit: int | None = None, **settings: Any) -> list[dict[str, Any]]:
    table = read_problems(build_config({"source": [str(source)], **settings}), tokenizer, limit)
    assert table.schema.equals(BENCHMARK)
    return table.to_pylist()


def test_each_problem_that_can_become_a_target_is_there_once(tokenizer: Path, jsonl: Any, good: Any) -> None:
    repeated, shouted = good(1, answer="5"), good(1, problem=str(good(1)["problem"]).upper())
    drawing, long = good(2, problem="See https://example.org: how many?"), good(3, problem="How many sheep? " * 400)
    source = jsonl(good(1), repeated, shouted, drawing, long, good(4, answer=""), good(5), "no JSON")
    rows = problems(source, tokenizer, system_prompt="Be brief.")
    assert [(row["problem"], row["gold"]) for row in rows] == [(good(k)["problem"], str(2 * k)) for k in (1, 5)]
    assert [message["role"] for message in rows[0]["prompt"]] == ["system", "user"]
    assert {row["verifier"] for row in rows} == {"math"}


def test_a_limit_draws_the_same_problems_whatever_their_order(tokenizer: Path, jsonl: Any, good: Any) -> None:
    first = problems(jsonl(*map(good, range(1, 13))), tokenizer, 3)
    again = problems(jsonl(*map(good, range(12, 0, -1))), tokenizer, 3)
    other = problems(jsonl(*map(good, range(1, 13))), tokenizer, 3, seed=1)
    assert len(first) == 3 and {row["id"] for row in first} == {row["id"] for row in again}
    assert {row["id"] for row in first} != {row["id"] for row in other}
