"""The file of a run: the same bytes from the same run, and one message for what is no such file."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import manifests
import pyarrow as pa
import pytest

from core.errors import InputError
from core.model.lineage_file import MANIFEST
from core.schemas import GRADED
from research.recorded_run import METRICS, PROBLEMS, read_run, record_run

ROW = {
    "benchmark": "arithmetic",
    "id": "1",
    "sample": 0,
    "prompt": "1+1=?",
    "response": "\\boxed{2}",
    "tokens": 9,
    "finish_reason": "stop",
    "seed": 7,
    "gold": "2",
    "extracted": "2",
    "verdict": "correct",
    "score": 1.0,
}
SCORES = "scores/arithmetic.parquet"


@pytest.fixture
def record(tmp_path: Path) -> Callable[[str], Path]:
    (tmp_path / MANIFEST).write_text(json.dumps(manifests.manifest().to_json()), encoding="utf-8")
    (tmp_path / METRICS).write_text('{"step": 1, "data": {"actor/grad_norm": 0.12345678901, "tokens": 123456789}}\n')
    metadata = {"checkpoint": "c" * 64, "model": str(tmp_path / "policy")}
    graded = pa.Table.from_pylist([ROW], schema=GRADED.with_metadata(metadata))

    def write(name: str) -> Path:
        path = tmp_path / name
        record_run(
            path,
            policy=tmp_path,
            metrics=tmp_path / METRICS,
            problems={"arithmetic": "d" * 64},
            tables={"arithmetic": graded},
        )
        return path

    return write


def test_a_run_is_read_as_it_was_recorded_and_always_has_the_same_bytes(record):
    run = read_run(record("one.zip"))
    assert run.manifest == manifests.manifest()
    assert run.metrics == ({"step": 1, "data": {"actor/grad_norm": 0.1234568, "tokens": 123456789}},)
    assert run.problems == {"arithmetic": "d" * 64}
    assert run.tables["arithmetic"].to_pylist()[0].items() >= ROW.items()
    assert run.tables["arithmetic"].schema.metadata == {b"checkpoint": b"c" * 64}  # and not the model's folder
    assert str(run) == "made on 2026-01-01 by c0ffee"
    assert record("one.zip").read_bytes() == record("two.zip").read_bytes()


def test_the_folders_of_the_machine_are_not_recorded(record, tmp_path: Path):
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    manifest["base_model"]["source"] = str(tmp_path / "model.gguf")
    manifest["targets"]["config"] = json.dumps({"source": [f"{tmp_path}/traces.jsonl"], "prompt": "[x] / {y"})
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    path = record("run.zip")
    with zipfile.ZipFile(path) as archive:
        assert not any(str(tmp_path).encode() in archive.read(name) for name in archive.namelist())
        written = json.loads(archive.read(MANIFEST))
    assert written["base_model"]["source"] == "model.gguf"
    assert json.loads(written["targets"]["config"]) == {"source": ["traces.jsonl"], "prompt": "[x] / {y"}


def changed(path: Path, name: str, content: bytes | None) -> None:
    """Replace one file of the archive, or leave it out."""
    with zipfile.ZipFile(path) as archive:
        contents = {member: archive.read(member) for member in archive.namelist()}
    del contents[name]
    with zipfile.ZipFile(path, "w") as archive:
        for member, kept in contents.items():
            archive.writestr(member, kept)
        if content is not None:
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (MANIFEST, None, "no lineage.json in it"),
        (MANIFEST, b"{}", "identity: Field required"),
        (METRICS, b"[1]", "metrics.jsonl, line 1: expected "),
        (PROBLEMS, b'{"arithmetic": "d", "other": "d"}', "problems of arithmetic, other, scores of arithmetic"),
        (SCORES, b"PAR1", "not a readable parquet file"),
    ],
)
def test_a_damaged_file_is_one_message_that_names_it(record, name: str, content: bytes | None, said: str):
    path = record("run.zip")
    changed(path, name, content)
    with pytest.raises(InputError) as raised:
        read_run(path)
    message = str(raised.value)
    assert said in message and message.startswith(f"{path}: ") and "record the run again" in message
    assert "/tmp" not in message.replace(str(path), "") and "remove" not in message  # it may be the user's only copy
