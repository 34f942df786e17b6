"""A training set goes to the hub and comes back as the same one.

The hub here is a small stand-in of its HTTP interface (tests/hub.py), because the real one cannot be reached;
huggingface_hub's own client talks to it, in the processes that a user starts.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hub import Hub, serve_hub
from preparing import run, trace

from targets.files import read_metadata
from targets.hub.push import write_dataset
from targets.prepared_files import Prepared
from targets.select.split import Split, select_train

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve_hub() as served:
        yield served


@pytest.fixture
def training_set(tmp_path: Path, tokenizer: Path) -> tuple[Prepared, Split]:
    """Targets of two files of the same name in two folders, some held out."""
    source = tmp_path / "private folder"
    for name, numbers in (("one", range(0, 30)), ("two", range(30, 50))):
        (source / name).mkdir(parents=True)
        lines = (json.dumps(trace(k, answer="7") if k == 3 else trace(k)) for k in numbers)
        (source / name / "t.jsonl").write_text("\n".join(lines) + "\n")
    prepared = run(f"{source}/*/t.jsonl", tmp_path / "out", tokenizer)
    return prepared, select_train(prepared, tmp_path / "out", heldout_share=0.3)


def targets(hub: Hub, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "targets", *arguments]
    environment = {**os.environ, **hub.environment(), "HF_HOME": str(home), "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def errors(commands: list[list[str]], environment: dict[str, str]) -> list[str]:
    """The last line of each of ``commands``, all of which fail for a mistake of the user, in one process."""
    program = "import json, sys; from core.cli import exit_status; from targets.__main__ import main\n"
    program += "print([exit_status(lambda: main(command)) for command in json.loads(sys.argv[1])])"
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(commands)],
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == [str([2] * len(commands))], done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == len(commands), done.stderr
    return lines


def test_a_pulled_set_is_the_pushed_one(hub: Hub, training_set: tuple[Prepared, Split], tmp_path: Path) -> None:
    _, split = training_set
    assert targets(hub, "push", str(tmp_path / "out"), "me/set", home=tmp_path).returncode == 0
    assert hub.private == {"datasets/me/set": True}
    pulled = targets(hub, "pull", "me/set", str(tmp_path / "pulled"), home=tmp_path)
    assert pulled.stdout == f"{tmp_path}/pulled/train.parquet: digest {split.digest}\n", pulled.stderr
    for name in ("train", "heldout"):
        before, after = (
            pq.read_table(folder / f"{name}.parquet") for folder in (tmp_path / "out", tmp_path / "pulled")
        )
        assert after.equals(before)
        assert read_metadata(tmp_path / "pulled" / f"{name}.parquet", "")["rows_digest"] == split.digest
    assert 0 < split.heldout_rows < split.rows
    again = targets(hub, "pull", "me/set", str(tmp_path / "pulled"), home=tmp_path)
    assert again.returncode == 2 and "exists already" in again.stderr


def test_what_is_pushed_has_messages_and_a_card_and_no_folder(
    hub: Hub, training_set: tuple[Prepared, Split], tmp_path: Path
) -> None:
    prepared, split = training_set
    done = targets(hub, "push", str(tmp_path / "out"), "me/set", "--license", "cc-by-4.0", "--public", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert hub.private == {"datasets/me/set": False}
    files = hub.newest("datasets/me/set")
    assert sorted(files) == ["README.md", "data/heldout.parquet", "data/train.parquet"]
    table = pq.read_table(pa.BufferReader(files["data/train.parquet"]))
    assert table.schema.names == [*pq.read_schema(split.train).names, "messages"]
    assert all(row["messages"] == [*row["prompt"], *row["target"]] for row in table.to_pylist())
    for name, content in files.items():
        assert str(tmp_path).encode() not in content and b"private folder" not in content, name
    assert not any("private folder" in str(row) for row in table.to_pylist())
    _, front, body = files["README.md"].decode().split("---\n", 2)
    card = yaml.safe_load(front)
    assert card["license"] == "cc-by-4.0"
    assert card["configs"][0]["data_files"] == [
        {"split": "train", "path": "data/train.parquet"},
        {"split": "heldout", "path": "data/heldout.parquet"},
    ]
    for fact in (split.digest, prepared.digest, f"| train | {split.rows} |", "| one/t.jsonl | 30 |", "| messages | "):
        assert fact in body
    assert "| the answer is not the gold answer | -1 |" in body


def test_another_set_than_the_one_that_was_pushed_is_refused(
    hub: Hub, training_set: tuple[Prepared, Split], tmp_path: Path
) -> None:
    write_dataset(tmp_path / "out", tmp_path / "data", "me/set", None)
    file = tmp_path / "data" / "data" / "train.parquet"
    table = pq.read_table(file).replace_schema_metadata(read_metadata(file, ""))
    card = (tmp_path / "data" / "README.md").read_bytes()

    empty: list[Any] = [None] * table.num_rows
    position = table.schema.get_field_index("extra_info")
    changed = {
        "its rows do not have the digest": table.slice(1),
        "column reward_model: expected struct": table.drop_columns(["reward_model"]),
        "no digest in its metadata": table.replace_schema_metadata({}),
        "a value after row 0 is missing": table.set_column(
            position, "extra_info", pa.array(empty, table.schema.field("extra_info").type)
        ),
    }
    for number, rows_of_set in enumerate(changed.values()):
        pq.write_table(rows_of_set, file)
        hub.repositories[f"datasets/me/set{number}"] = [{"README.md": card, "data/train.parquet": file.read_bytes()}]
    hub.repositories[f"datasets/me/set{len(changed)}"] = [{"README.md": card}]
    phrases = [*changed, "no data/train.parquet in it"]
    pulls = [["pull", f"me/set{number}", str(tmp_path / "pulled")] for number in range(len(phrases))]
    told = errors(pulls, {**hub.environment(), "HF_HOME": str(tmp_path / "home")})
    assert not [phrase for phrase, line in zip(phrases, told, strict=True) if phrase not in line], told
    assert not (tmp_path / "pulled").exists()


def test_a_hub_that_refuses_is_one_line(hub: Hub, training_set: tuple[Prepared, Split], tmp_path: Path) -> None:
    for name, value, phrase in (
        ("HF_TOKEN", "wrong", "Invalid username"),
        ("HF_ENDPOINT", "http://127.0.0.1:9", "refused"),
    ):
        commands = [["push", str(tmp_path / "out"), "me/set"], ["pull", "me/none", str(tmp_path / "pulled")]]
        pushed, pulled = errors(commands, {**hub.environment(), name: value, "HF_HOME": str(tmp_path)})
        assert pushed.startswith("error: push me/") and phrase in pushed
        assert pulled.startswith("error: pull me/")


def test_a_set_of_fewer_files_takes_the_place_of_one_of_more(
    hub: Hub, training_set: tuple[Prepared, Split], tmp_path: Path, tokenizer: Path
) -> None:
    prepared, split = training_set
    several = run(prepared.config.paths[0], tmp_path / "several", tokenizer, rows_per_file=20)
    select_train(several, tmp_path / "several")
    for folder in (tmp_path / "several", split.train.parent):
        done = targets(hub, "push", str(folder), "me/set", "--license", "mit", home=tmp_path / "home")
        assert done.returncode == 0, done.stderr
    data = [name for name in hub.newest("datasets/me/set") if name.startswith("data/")]
    assert sorted(data) == ["data/heldout.parquet", "data/train.parquet"]
