"""What changes while it is read, and what an earlier preparation left, never mixes with the targets of another one."""

from pathlib import Path
from typing import Any

import pytest
from preparing import rows

from core.errors import InputError
from targets.prepare import prepare
from targets.read import trace_files
from targets.select.split import select_train
from targets.settings import build_config

PIECE = 8


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "MARKED_ROWS", PIECE)


@pytest.mark.parametrize("how", ["same size", "shorter"])
def test_a_source_that_changes_while_it_is_read_is_refused_and_nothing_of_it_is_kept(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, how: str
) -> None:
    source = jsonl(*(good(k) for k in range(10, 10 + 5 * PIECE)))
    before = source.read_bytes()
    after = before.replace(b"sheep", b"goats") if how == "same size" else before[: len(before) // 2]
    config = build_config({"source": str(source), "workers": 1})

    def change(stage: str, done: int, total: int | None) -> None:
        if stage == "filter" and source.read_bytes() == before:
            source.write_bytes(after)

    options: dict[str, Any] = {"tokenizer_json": tokenizer, "cache": tmp_path / "cache"}
    with pytest.raises(InputError, match=r"traces\.jsonl: it was changed while it was read; run again"):
        prepare(config, tmp_path / "out", progress=change, **options)
    assert not (tmp_path / "out").exists()
    source.write_bytes(before)
    again = prepare(config, tmp_path / "out", **options)
    problems = [row["prompt"][-1]["content"] for row in rows(again.prepared)]
    assert len(problems) == 5 * PIECE and all("sheep" in problem for problem in problems)


def test_the_split_of_earlier_targets_goes_with_them(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    out = tmp_path / "out"

    def again(source: Path) -> Any:
        return prepare(build_config({"source": str(source)}), out, tokenizer_json=tokenizer)

    first = again(jsonl(*(good(k) for k in range(10, 40))))
    split = select_train(first, out, heldout_share=0.3)
    assert len(rows(split.train)) + len(rows(split.heldout)) == 30
    assert again(tmp_path / "traces.jsonl").reused and split.train.exists()
    again(jsonl(*(good(k, response="no thoughts") for k in range(10, 15))))
    assert not any(file.exists() for file in (split.train, split.heldout, split.left_out))


def test_an_output_folder_inside_a_source_is_refused(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    folder = jsonl(good(10), name="raw/a.jsonl").parent
    for out in (folder, folder / "deep" / "out"):
        with pytest.raises(InputError, match="inside the source"):
            prepare(build_config({"source": str(folder)}), out, tokenizer_json=tokenizer)
    assert [file.name for file in folder.iterdir()] == ["a.jsonl"]


def test_a_filter_of_the_users_changes_no_trace(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    (tmp_path / "greedy.py").write_text(
        "def greedy(trace):\n"
        "    trace.gold = trace.problem = trace.target = 'mine'\n"
        "    trace.reasons.append('mine')\n"
        "    trace.metadata['license'] = 'mine'\n"
    )
    source = jsonl(*(good(k) for k in range(10, 14)))
    settings = {"source": [{"path": str(source), "license": "mit"}]}
    plain = prepare(build_config(settings), tmp_path / "plain", tokenizer_json=tokenizer)
    own = build_config({**settings, "filters": [f"{tmp_path / 'greedy.py'}:greedy"]})
    filtered = prepare(own, tmp_path / "own", tokenizer_json=tokenizer)
    assert rows(filtered.prepared) == rows(plain.prepared) and filtered.counts["kept"] == 4
