"""Files as people have them: which are read, which are skipped, and what is said of the others."""

import bz2
import codecs
import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from tests.unit.targets.test_sources import read

ROW = {"problem": "4+4=?", "answer": "8", "response": "<think>\na\n</think>\n\n\\boxed{8}"}
ROWS = [{**ROW, "problem": f"4+{k}=?", "answer": str(4 + k)} for k in range(3)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
ARRAY = json.dumps(ROWS)


def golds(source: Any, **settings: Any) -> list[str | None]:
    return [trace.gold for trace in read(source, **settings)]


def written(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def table(path: Path, rows: list[dict[str, Any]] = ROWS, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, pa.Table.from_pylist(ROWS).schema), path, **options)
    return path


CSV = "problem,answer,response\n" + "".join(
    f'4+{k}=?,{4 + k},"<think>\na, ""b""\n</think>\n\n\\boxed{{{4 + k}}}"\n' for k in range(3)
)
SAME_ROWS: dict[str, tuple[str, bytes]] = {
    "an array in .jsonl": ("x.jsonl", ARRAY.encode()),
    "an indented array in .jsonl": ("x.jsonl", json.dumps(ROWS, indent=2).encode()),
    "an array after a byte order mark": ("x.json", codecs.BOM_UTF8 + b"\n " + ARRAY.encode()),
    "an array in .ndjson.gz": ("x.ndjson.gz", gzip.compress(ARRAY.encode())),
    "lines in .json": ("x.json", LINES.encode()),
    "lines after a byte order mark": ("x.jsonl", codecs.BOM_UTF8 + LINES.encode()),
    "zstd": ("x.jsonl.zst", pa.compress(LINES.encode(), "zstd", asbytes=True)),
    "an array in zstd": ("x.json.zst", pa.compress(ARRAY.encode(), "zstd", asbytes=True)),
    "CSV": ("x.csv", CSV.encode()),
    "CSV after a byte order mark, with CRLF": ("x.csv", codecs.BOM_UTF8 + CSV.replace("\n", "\r\n").encode()),
    "CSV in gzip": ("x.csv.gz", gzip.compress(CSV.encode())),
    "CSV in bzip2": ("x.csv.bz2", bz2.compress(CSV.encode())),
    "lines in bzip2": ("x.jsonl.bz2", bz2.compress(LINES.encode())),
    "tabs": ("x.tsv", "\t".join(ROW).encode() + b"\n" + b"".join(f"4+{k}=?\t{4 + k}\tb\n".encode() for k in range(3))),
}


@pytest.mark.parametrize("name", SAME_ROWS)
def test_the_same_rows_in_any_form(tmp_path: Path, name: str) -> None:
    file, content = SAME_ROWS[name]
    assert golds(written(tmp_path / file, content)) == ["4", "5", "6"]


def test_values_of_a_table_are_texts_and_a_row_of_another_width_is_rejected(tmp_path: Path) -> None:
    text = 'problem,answer,response,correct\np,007,r,True\nq,,r,\nr,1\ns,"1,5",r,no\n'
    mapping = {"problem": "problem", "answer": "answer", "response": "response", "upstream_correct": "correct"}
    traces = read(written(tmp_path / "x.csv", text), mapping=mapping)
    assert [trace.gold for trace in traces] == ["007", None, None, "1,5"]
    assert [trace.reasons for trace in traces] == [[], ["no_gold"], ["unreadable"], []]
    assert [trace.upstream_correct for trace in traces] == [True, None, None, False]
    with pytest.raises(InputError, match=r"x\.csv: not CSV"):
        read(written(tmp_path / "x.csv", 'problem,answer,response\np,"1,r\n'))


@pytest.mark.parametrize("rest", [ARRAY, "\n" + LINES, "]", "rubbish", ","])
def test_what_follows_an_array_is_an_error(tmp_path: Path, rest: str) -> None:
    with pytest.raises(InputError, match=r"x\.json: more data follow the array of 3 rows"):
        read(written(tmp_path / "x.json", ARRAY + rest))
    assert golds(written(tmp_path / "x.json", ARRAY + " \n\n")) == ["4", "5", "6"]


PRETTY = "\n".join(json.dumps(row, indent=1) for row in ROWS)
OTHER_KINDS = {
    "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n": r"pointer of Git LFS.*git lfs pull",
    "\n<!DOCTYPE html>\n<html>": "web page or XML, not data: download",
    LINES.encode("utf-16"): r"UTF-16 text: convert it to UTF-8 \(iconv -f UTF-16 ",
    gzip.compress(LINES.encode()): r"compressed with gzip: give it a name that ends in \.gz",
    pa.compress(LINES.encode(), "zstd", asbytes=True): r"compressed with zstd: .* \.zst",
    PRETTY: "its objects go over several lines",
    LINES.replace("\n", ",\n"): "its lines end in a comma",
    json.dumps({"version": 2, "items": ROWS, "by": {"name": "me"}}): "one JSON object in which the rows",
    json.dumps({"rows": ROWS}): "one JSON object in which the rows, or their columns, are nested",
}


@pytest.mark.parametrize("content", OTHER_KINDS)
def test_a_file_of_another_kind_is_one_sentence(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(InputError, match=OTHER_KINDS[content]) as error:
        read(written(tmp_path / "x.jsonl", content))
    assert "\n" not in str(error.value)


def test_a_pointer_is_named_in_the_place_of_any_file(tmp_path: Path) -> None:
    pointer = next(iter(OTHER_KINDS))
    for name in ("x.parquet", "x.arrow", "x.csv", "x.jsonl.gz", "x.jsonl.zst"):
        with pytest.raises(InputError, match="git lfs pull"):
            read(written(tmp_path / name, pointer))


def test_one_row_alone_is_no_nested_file(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "4+4=?"}, {"role": "assistant", "content": ROW["response"]}]
    row = {"prompt": chat[:1], "target": chat[1:], "reward_model": {"ground_truth": "8"}}
    assert golds(written(tmp_path / "x.jsonl", json.dumps(row))) == ["8"]
    assert golds(written(tmp_path / "x.jsonl", json.dumps({"messages": chat, "answer": "8"}))) == ["8"]
    assert golds(written(tmp_path / "x.jsonl", json.dumps({**ROW, "response": [ROW["response"]]}))) == ["8"]


def test_shards_without_rows_are_skipped(tmp_path: Path) -> None:
    table(tmp_path / "in/a.parquet")
    table(tmp_path / "in/b.parquet", [])
    pq.write_table(pa.table({}), tmp_path / "in/c.parquet")
    for name, content in {"d.jsonl": "", "e.jsonl": " \n\n", "f.json": "[]", "g.jsonl.gz": gzip.compress(b"")}.items():
        written(tmp_path / "in" / name, content)
    assert golds(tmp_path / "in") == ["4", "5", "6"]
    assert len({trace.source for trace in read(tmp_path / "in")}) == 1


def test_keys_that_only_late_rows_have_are_read(tmp_path: Path) -> None:
    many = [ROWS[k % 3] for k in range(150)]
    late = {"target_log_probs": [-0.5], "target_token_ids": [7]}
    rows = [
        *many,
        {**ROW, **late},
        {**ROW, "finish_reason": "length"},
        {**ROW, "response": "\\boxed{8}", "reasoning_content": "a"},
        {**ROW, "system": "Be brief."},
        {**ROW, "choices": ["7", "8"]},
    ]
    for content in (json.dumps(rows), "".join(json.dumps(row) + "\n" for row in rows)):
        traces = read(written(tmp_path / "x.jsonl", content))
        assert (traces[150].target_log_probs, traces[150].target_token_ids) == ([-0.5], [7])
        assert traces[151].reasons == ["unclosed"]
        assert traces[152].response == ROW["response"]
        assert not any(trace.reasons for trace in traces[:151])
        assert [trace.system for trace in traces] == [None] * 153 + ["Be brief.", None]
        assert traces[154].problem == f"{ROW['problem']}\n\nA) 7\nB) 8\n"


def test_a_column_that_a_mapping_names_is_found_in_late_rows(tmp_path: Path) -> None:
    rows = [ROW] * 150 + [{**ROW, "gr\u00fcn\n": False}]
    for ascii_only in (True, False):
        texts = (json.dumps(row, ensure_ascii=ascii_only) for row in rows)
        file = written(tmp_path / "x.jsonl", "".join(f"{text}\n" for text in texts))
        mapping = {"problem": "problem", "answer": "answer", "response": "response", "upstream_correct": "gr\u00fcn\n"}
        assert [trace.upstream_correct for trace in read(file, mapping=mapping)] == [None] * 150 + [False]
    with pytest.raises(InputError, match=r"no column gone: it has problem, answer, response"):
        read(file, mapping={**mapping, "upstream_correct": "gone"})


def test_numbers_of_32_bits_are_the_shortest_that_mean_them(tmp_path: Path) -> None:
    columns = {
        "problem": pa.array(["a", "b", "c", "d"]),
        "reward": pa.array([{"gold": x} for x in (9876.54, 0.1, 3.0, None)], pa.struct([("gold", pa.float32())])),
        "response": pa.array(["r"] * 4),
        "target_log_probs": pa.array([[-0.1, -2.7182817], None, [], [-1.0]], pa.list_(pa.float32())),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    mapping = {"problem": "problem", "answer": "reward.gold", "response": "response"}
    traces = read(tmp_path / "x.parquet", mapping=mapping)
    assert [trace.gold for trace in traces] == ["9876.54", "0.1", "3", None]
    assert traces[0].target_log_probs == [-0.1, -2.7182817]
    pq.write_table(
        pa.table({**columns, "reward": pa.array([9876.54, 0.25, 2.5, 1e-3], pa.float16())}), tmp_path / "y.parquet"
    )
    mapping = {"problem": "problem", "answer": "reward", "response": "response"}
    assert [trace.gold for trace in read(tmp_path / "y.parquet", mapping=mapping)][1:3] == ["0.25", "2.5"]
    for kind in (pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 1)):
        golds = pa.array([[1.1], None, [9876.54], [3.0]], kind)
        pq.write_table(pa.table({**columns, "reward": golds}), tmp_path / "z.parquet")
        traces = read(tmp_path / "z.parquet", mapping=mapping)
        assert [trace.gold for trace in traces] == ["1.1", None, "9876.54", "3"], kind
    golds = pa.array([[("gold", number)] for number in (1.1, None, 0.1, 3.0)], pa.map_(pa.string(), pa.float32()))
    pq.write_table(pa.table({**columns, "reward": golds}), tmp_path / "z.parquet")
    mapping["answer"] = "reward.gold"
    assert [trace.gold for trace in read(tmp_path / "z.parquet", mapping=mapping)] == ["1.1", None, "0.1", "3"]


def test_maps_are_read_as_structs(tmp_path: Path) -> None:
    message = pa.map_(pa.string(), pa.string())
    columns = {
        "prompt": pa.array([[[("role", "user"), ("content", "4+4=?")]]], pa.list_(message)),
        "target": pa.array([[[("role", "assistant"), ("content", ROW["response"])]]], pa.list_(message)),
        "reward_model": pa.array([[("ground_truth", "8"), ("style", "rule")]], message),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    (trace,) = read(tmp_path / "x.parquet")
    assert (trace.reasons, trace.problem, trace.gold, trace.response) == ([], "4+4=?", "8", ROW["response"])


@pytest.mark.parametrize("gold", ["NaN", "Infinity", "-Infinity", "null", '"nan"', '"NULL"', '"<NA>"'])
def test_a_gold_that_stands_for_nothing_is_no_gold(tmp_path: Path, gold: str) -> None:
    line = json.dumps({**ROW, "answer": 0}).replace('"answer": 0', f'"answer": {gold}')
    (trace,) = read(written(tmp_path / "x.jsonl", line))
    assert trace.reasons == ["no_gold"]
    (trace,) = read(written(tmp_path / "x.json", f"[{line}]"))
    assert trace.reasons == ["no_gold"]


def test_a_saved_dataset_is_read(tmp_path: Path) -> None:
    train, test = datasets.Dataset.from_list(ROWS), datasets.Dataset.from_list(ROWS[:1])
    train.save_to_disk(tmp_path / "one", num_shards=2)
    written(tmp_path / "one/cache-0123.arrow", b"of a map over it")
    assert golds(tmp_path / "one") == ["4", "5", "6"]
    datasets.DatasetDict(train=train, test=test).save_to_disk(tmp_path / "both")
    assert golds(tmp_path / "both") == ["4", "5", "6"]
    assert golds(tmp_path / "both", split="test") == ["4"]
    written(tmp_path / "x.arrow", (tmp_path / "one/data-00000-of-00002.arrow").read_bytes()[:-40])
    with pytest.raises(InputError, match=r"x\.arrow: not a readable Arrow file"):
        read(tmp_path / "x.arrow")
