"""Selection by how often the base model solves a problem."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from preparing import rows, run

from targets.select.split import reconcile, select_train


def rates(path: Path, **values: float) -> str:
    table = pa.table({"problem": pa.array(list(values), pa.string()), "pass_rate": pa.array(list(values.values()))})
    pq.write_table(table, path)
    return str(path)


def test_problems_out_of_bounds_are_rejected_with_their_rate(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any
) -> None:
    problems = {k: str(good(k)["problem"]) for k in range(1, 6)}
    known = {problems[1]: 0.0, problems[2].upper(): 0.5, problems[3]: 0.75, problems[4]: 1.0}
    source = jsonl(*map(good, problems), good(1, answer="7"))
    settings = {"difficulty": rates(tmp_path / "d.parquet", **known), "pass_rate": [0.25, 0.75]}
    prepared = run(source, tmp_path / "out", tokenizer, **settings)
    assert [row["extra_info"]["id"] for row in rows(prepared.prepared)] == ["traces.jsonl:1", "traces.jsonl:2"]
    details = {row["row"]: row["detail"] for row in rows(prepared.rejected) if row["reason"] == "pass_rate"}
    assert details == {
        0: "solved in 0% of the samples (pass_rate: 0.25 to 0.75)",
        3: "solved in 100% of the samples (pass_rate: 0.25 to 0.75)",
        4: "the pass rate of the problem is not known",
    }
    assert prepared.counts == {"read": 6, "kept": 2, "wrong": 1, "pass_rate": 3}
    assert not reconcile(prepared, select_train(prepared, tmp_path / "out")).problems


def test_without_bounds_the_rates_pass_through_to_the_training_file(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any
) -> None:
    source, out, problem = jsonl(good(1), good(2)), tmp_path / "out", str(good(1)["problem"])
    plain = run(source, out, tokenizer)
    assert "pass_rate" not in pq.read_schema(plain.prepared).names
    measured = rates(tmp_path / "d.parquet", **{problem: 0.25})
    prepared = run(source, out, tokenizer, difficulty=measured)
    split = select_train(prepared, out)
    assert [row["pass_rate"] for row in rows(split.train)] == [0.25, None]
    assert not reconcile(prepared, split).problems
    rates(tmp_path / "d.parquet", **{problem: 0.5})
    other = run(source, out, tokenizer, difficulty=measured)
    assert len({plain.digest, prepared.digest, other.digest}) == 3
    rates(tmp_path / "d.parquet", **{"another problem": 0.5})
    assert run(source, out, tokenizer, difficulty=measured).digest == plain.digest  # no row has a rate
