"""Targets that an earlier training says are not worth another use are left out, with a reason of their own."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from preparing import rows, run

from core.errors import InputError
from core.ledger_verdicts import LEARNED_FILE
from core.schemas import LEARNED


def write_learned(folder: Path, **verdicts: str) -> Path:
    folder.mkdir()
    table = [{"target": f"t.jsonl:{name[1:]}", "verdict": verdict} for name, verdict in verdicts.items()]
    pq.write_table(pa.Table.from_pylist(table, schema=LEARNED), folder / LEARNED_FILE)
    return folder


@pytest.fixture
def source(jsonl: Any, good: Any) -> Path:
    return jsonl(good(0), good(1), good(2), good(3), name="t.jsonl")


def test_the_verdicts_that_are_named_are_left_out(source: Path, tmp_path: Path, tokenizer: Path) -> None:
    folder = write_learned(tmp_path / "run", _0="known", _1="not_learned", _2="taught", _9="known")
    prepared = run(source, tmp_path / "out", tokenizer, ledger=str(folder))
    assert prepared.counts == {"read": 4, "kept": 2, "ledger": 2}
    assert [row["extra_info"]["id"] for row in rows(prepared.prepared)] == ["t.jsonl:2", "t.jsonl:3"]
    details = {row["id"]: row["detail"] for row in rows(prepared.rejected)}
    assert details["t.jsonl:0"].startswith("known: at its first use the policy solved")
    only = run(source, tmp_path / "out", tokenizer, ledger=str(folder / LEARNED_FILE), ledger_drop=["taught"])
    assert [row["id"] for row in rows(only.rejected)] == ["t.jsonl:2"]


@pytest.mark.parametrize(
    ("verdict", "drop", "words"),
    [
        ("guessed", ["known"], "row 1: verdict 'guessed': expected taught, imitated"),
        ("known", ["forgotten"], "there is no verdict 'forgotten'; expected taught, imitated"),
    ],
)
def test_other_verdicts_are_refused(
    verdict: str, drop: list[str], words: str, source: Path, tmp_path: Path, tokenizer: Path
) -> None:
    folder = write_learned(tmp_path / "run", _0=verdict)
    with pytest.raises((InputError, ValueError), match=words):
        run(source, tmp_path / "out", tokenizer, ledger=str(folder), ledger_drop=drop)


def test_a_folder_without_a_ledger_is_refused(source: Path, tmp_path: Path, tokenizer: Path) -> None:
    with pytest.raises(InputError, match=r"give the folder of a training run that has targets\.parquet"):
        run(source, tmp_path / "out", tokenizer, ledger=str(tmp_path))
    assert not (tmp_path / "out").exists()
