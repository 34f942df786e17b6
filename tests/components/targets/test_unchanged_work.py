"""What has not changed is not prepared again, and what has is."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from preparing import rows as rows_of
from preparing import run

from core import kinds
from core.schemas import BENCHMARK, ENTRIES_KEY
from targets.filter import decisions
from targets.prepared_files import reuse_texts
from targets.read import trace_files
from targets.read.sources import find_shards
from targets.settings import build_config


def test_what_has_not_changed_is_not_done_again(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    first_file = jsonl(*(good(k) for k in range(1, 30)), good(30, answer="1"), name="in/a.jsonl")
    out, cache = tmp_path / "out", tmp_path / "cache"
    first = run(first_file.parent, out, tokenizer, cache=cache)
    (a,) = cache.glob("??/*.parquet")
    stamps = {path: path.stat().st_mtime_ns for path in (first.prepared, first.rejected, first.profile, a)}

    again = run(first_file.parent, out, tokenizer, cache=cache)
    assert again.reused and again == first
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps

    jsonl(*(good(k) for k in range(20, 50)), name="in/b.jsonl")
    more = run(first_file.parent, out, tokenizer, cache=cache)
    assert not more.reused and more.counts["read"] == 60 and more.counts["kept"] == 49
    assert a.stat().st_mtime_ns == stamps[a]
    assert len(list(cache.glob("??/*.parquet"))) == 2  # the new file's rows, and nothing else, were filtered
    fresh = run(first_file.parent, tmp_path / "fresh", tokenizer)
    for name in ("prepared", "profile", "rejected"):
        assert getattr(more, name).read_bytes() == getattr(fresh, name).read_bytes()

    run(first_file.parent, out, tokenizer, cache=cache, keep="shortest", min_rows=2)  # decided after filtering
    assert len(list(cache.glob("??/*.parquet"))) == 2
    shorter = run(first_file.parent, out, tokenizer, cache=cache, max_target_tokens=20)
    assert shorter.counts["target_too_long"] and len(list(cache.glob("??/*.parquet"))) == 2
    run(first_file.parent, out, tokenizer, cache=cache, max_repeats=19)
    assert len(list(cache.glob("??/*.parquet"))) == 4
    jsonl(*(good(k) for k in range(1, 10)), name="in/a.jsonl")
    run(first_file.parent, out, tokenizer, cache=cache)
    assert len(list(cache.glob("??/*.parquet"))) == 5
    assert {path.suffix for path in cache.rglob("*") if path.is_file()} == {".parquet"}


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_rows_that_come_or_go_change_the_pieces_near_them(
    tmp_path: Path, good: Any, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(trace_files, "MARKED_ROWS", 4)
    source = tmp_path / f"a.jsonl{suffix}"

    def pieces(rows: list[int]) -> set[str]:
        with (gzip.open if suffix else open)(source, "wt") as file:
            file.writelines(json.dumps(good(k)) + "\n" for k in rows)
        (shard,) = find_shards(build_config({"source": str(source)}))
        assert sum(piece.rows for piece in shard.pieces()) == len(rows)
        return {piece.digest for piece in shard.pieces()}

    rows = list(range(100, 400))
    before = pieces(rows)
    assert len(before) > 6 and len(pieces([*rows, 400, 401]) - before) <= 2
    assert len(pieces([*rows[:150], *rows[151:]]) - before) <= (len(before) // 2 if suffix else 3)
    assert suffix or len(pieces([*range(50, 70), *rows]) - before) <= 3


def test_decisions_on_rows_that_have_moved_are_theirs(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_files, "MARKED_ROWS", 4)
    rows, cache = [good(k, **({"response": "cut"} if k % 9 == 0 else {})) for k in range(100, 200)], tmp_path / "cache"
    run(jsonl(*rows), tmp_path / "out", tokenizer, cache=cache)
    filtered = len(list(cache.glob("??/*.parquet")))
    moved = run(jsonl(*rows[:50], *rows[51:]), tmp_path / "out", tokenizer, cache=cache)
    assert len(list(cache.glob("??/*.parquet"))) <= filtered + 3 < 2 * filtered
    alone = run(tmp_path / "traces.jsonl", tmp_path / "alone", tokenizer)
    assert moved.counts == alone.counts and len(rows_of(alone.rejected)) > 5
    for name in ("prepared", "profile", "rejected"):
        assert rows_of(getattr(moved, name)) == rows_of(getattr(alone, name)), name


def test_what_other_code_made_is_reused_with_a_line_unless_it_is_forced(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(**changes: Any) -> list[str]:
        return reuse_texts(run(source, tmp_path / "out", tokenizer, cache=tmp_path / "cache", **changes))

    source = jsonl(*(good(k) for k in range(1, 5)))
    assert lines() == []
    monkeypatch.setattr(kinds, "code_digest", lambda *packages: "f" * 64)
    (of_all,) = lines()
    (of_decisions,) = lines(keep="shortest")
    assert of_all.startswith(f"{tmp_path / 'out'}: reused; other code made it")
    assert of_decisions.startswith("decisions about traces: reused; other code made it")
    assert lines(keep="shortest", force=True) == lines(keep="diverse") == []
    monkeypatch.setitem(vars(kinds.PREPARED), "number", kinds.PREPARED.number + 1)
    decisions.versions.cache_clear()
    assert not run(source, tmp_path / "out", tokenizer, cache=tmp_path / "cache").reused
    decisions.versions.cache_clear()


def test_generated_benchmarks_are_searched_for_again_and_moved_files_are_not(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any
) -> None:
    def prepared_again(**entry: Any) -> bool:
        rows = [{"benchmark": "b", "id": "1", "problem": "What is 1 + 1?"}]
        recorded = {ENTRIES_KEY: json.dumps([{"name": "b", **entry}])}
        suite = pa.Table.from_pylist(rows, schema=BENCHMARK).replace_schema_metadata(recorded)
        return not run(source, tmp_path / "out", tokenizer, benchmarks=suite).reused

    source = jsonl(good(1), good(2))
    assert prepared_again(sources=[{"file": "/here/b.jsonl"}])
    assert not prepared_again(sources=[{"file": "/there/b.jsonl"}])
    assert prepared_again(generator="arithmetic:easy")
