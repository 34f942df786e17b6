"""targets.rounds: which problems a teacher is asked, and the training set of problems with and without targets."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.arithmetic import problems
from core.files import write_table
from core.model.base_model import SHIPPED
from core.schemas import BENCHMARK
from targets.prepare import prepare
from targets.rounds import question, repetitions, unsolved, write_training_set
from targets.select.split import Split, select_train
from targets.settings import build_config

POOL = problems("train", 12)


def test_what_no_policy_sampled_is_asked_in_the_first_round_only():
    names = [one.problem for one in POOL]
    first = unsolved(names, None, below=0.25, seed=0)
    assert sorted(first) == sorted(names) and first != names
    assert first == unsolved(names, None, 0.25, 0) != unsolved(names, None, 0.25, 1)
    assert unsolved(names, {names[3]: 0.0, names[5]: 0.2, names[7]: 0.25}, 0.25, 0) == [names[3], names[5]]


@pytest.mark.parametrize(("targets", "others", "share"), [(5, 95, 0.5), (5, 95, 0.25), (60, 40, 0.5), (1, 0, 0.9)])
def test_targets_are_repeated_as_often_as_the_share_needs_and_no_more(targets, others, share):
    times = repetitions(targets, others, share)
    assert times * targets / (times * targets + others) >= share
    assert times == 1 or (times - 1) * targets / ((times - 1) * targets + others) < share


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """The prepared traces of four problems of the pool, as a teacher's file has them; one of them is wrong."""
    rows = [
        {"problem": one.problem, "answer": one.answer, "response": one.trace, "id": str(k), "sample": 0}
        | {"teacher": "exact", "generation": "g"}
        for k, one in enumerate(POOL[:4])
    ]
    rows[1]["answer"] = "77"
    write_table(pa.Table.from_pylist(rows), tmp_path / "traces.parquet")
    config = build_config({"source": ["generated"], "workers": 1, "max_prompt_tokens": 64, "max_target_tokens": 144})
    prepared = prepare(config, tmp_path / "targets", tokenizer_json=SHIPPED, generated=tmp_path / "traces.parquet")
    return select_train(prepared, tmp_path / "targets")


def test_the_training_set_has_every_problem_and_repeats_the_targets(split: Split, tmp_path: Path):
    (source,) = build_config({"source": ["generated"]}).sources
    rows = [
        {"benchmark": "", "id": one.id, "problem": one.problem, "prompt": [{"role": "user", "content": one.problem}]}
        | {"gold": one.answer, "verifier": "math", "fields": json.dumps({"data_source": "generated"})}
        for one in POOL
    ]
    pool = pa.Table.from_pylist(rows, schema=BENCHMARK)
    digest = write_training_set(split, pool, source, 0.5, tmp_path / "train.parquet")
    table = pq.read_table(tmp_path / "train.parquet").to_pylist()
    taught = [row for row in table if row["target"]]
    assert {question(row) for row in table} == {one.problem for one in POOL}
    assert {question(row) for row in taught} == {POOL[k].problem for k in (0, 2, 3)}
    assert len(table) == 9 + 9 and len(taught) == 9  # what was answered wrong is sampled alone
    assert len({row["extra_info"]["id"] for row in table}) == len(table)
    assert [row["extra_info"]["index"] for row in table] == list(range(len(table)))
    golds = {one.problem: one.answer for one in POOL}
    alone = [row for row in table if not row["target"]]
    assert all(row["reward_model"] == {"style": "math", "ground_truth": golds[question(row)]} for row in alone)
    recorded = pq.read_metadata(tmp_path / "train.parquet").metadata
    assert recorded[b"rows_digest"].decode() == digest != split.digest
    assert "generated" in json.loads(recorded[b"verifiers"])
    assert write_training_set(split, pool, source, 0.5, tmp_path / "again.parquet") == digest
    assert write_training_set(split, pool, source, 0.0, tmp_path / "plain.parquet") != digest
    assert len(pq.read_table(tmp_path / "plain.parquet")) == len(POOL)
