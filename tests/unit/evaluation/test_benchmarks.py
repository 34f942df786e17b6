"""Suites load without data files; the real files become the right number of problems; bad input names itself."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evaluation.benchmarks import Benchmark, load_suite, read_benchmark, read_suite, suite_entries
from evaluation.errors import InputError
from evaluation.records import BENCHMARK

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def paper():
    return {benchmark.name: benchmark for benchmark in load_suite("paper")}


def test_the_paper_has_its_nine(paper):
    assert [n for n, b in paper.items() if b.group == "evals"] == [
        "aime24", "aime25", "amc", "math500", "minerva", "olympiadbench",
    ]  # fmt: skip
    assert [n for n, b in paper.items() if b.group == "ood"] == ["arc_c", "gpqa_diamond", "mmlu_pro"]
    assert {n: b.samples for n, b in paper.items() if b.samples > 1} == {"aime24": 32, "aime25": 32, "amc": 32}


def test_loading_a_suite_imports_nothing_heavy():
    program = "import sys; from evaluation.benchmarks import load_suite; load_suite('paper'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"pyarrow", "math_verify", "datasets", "pandas", "torch"} & set(loaded.stdout.split())


def test_real_files_have_their_published_sizes(paper, shared):
    roots = [shared / "data"]
    for name, benchmark in paper.items():
        if name == "mmlu_pro":
            continue  # 12,000 rows: the sampled test below
        table = read_benchmark(benchmark, roots, system_prompt="Think.")
        assert table.schema == BENCHMARK
        assert table.num_rows == benchmark.size, name
        assert table["gold"].null_count == 0
        prompt = table["prompt"][0].as_py()
        assert prompt[0] == {"role": "system", "content": "Think."}
        assert "<think>" not in prompt[1]["content"], "the file's own system prompt must not leak into the problem"


def test_both_sources_of_a_benchmark_hold_the_same_problems(paper, shared):
    for name in ("aime24", "amc", "math500"):
        both = [read_benchmark(paper[name], [shared / "data" / folder]) for folder in ("luffy", "problems")]
        assert both[0].num_rows == both[1].num_rows == paper[name].size
        first, second = (sorted(g.removesuffix(".0").lstrip("0") for g in t["gold"].to_pylist()) for t in both)
        assert first == second


def test_mmlu_pro_has_up_to_ten_labelled_options(paper, shared):
    table = read_benchmark(paper["mmlu_pro"], [shared / "data"], limit=200, seed=1)
    assert table.num_rows == 200
    assert any("\nJ) " in problem for problem in table["problem"].to_pylist())
    assert set(table["gold"].to_pylist()) <= set("ABCDEFGHIJ")
    assert table["subject"].null_count == 0


def test_gpqa_boilerplate_is_asked_but_is_not_the_problem(paper, shared):
    table = read_benchmark(paper["gpqa_diamond"], [shared / "data"])
    assert all("ANSWER: $LETTER" in prompt[-1]["content"] for prompt in table["prompt"].to_pylist())
    assert not any("ANSWER: $LETTER" in problem for problem in table["problem"].to_pylist())


def test_a_limit_is_a_stable_sample_of_each_benchmark(paper, shared):
    roots = [shared / "data"]
    ids = read_benchmark(paper["math500"], roots, limit=20, seed=7)["id"].to_pylist()
    together = read_suite([paper["aime24"], paper["math500"]], roots, limit=20, seed=7)
    assert together["id"].to_pylist()[20:] == ids
    assert ids != read_benchmark(paper["math500"], roots, limit=20, seed=8)["id"].to_pylist()
    assert set(ids) < set(read_benchmark(paper["math500"], roots, limit=60, seed=7)["id"].to_pylist())
    assert suite_entries(together) == [paper["aime24"], paper["math500"]]


def test_embedded_suite_makes_its_own_problems():
    table = read_suite(load_suite("embedded"), [], limit=10)
    assert table.num_rows == 10 * len(load_suite("embedded"))
    assert len(set(table["id"].to_pylist())) == table.num_rows
    assert suite_entries(table) == load_suite("embedded")


def entry(**changes) -> Benchmark:
    source = {"file": "mine.jsonl", "columns": {"problem": "q", "gold": "a"}}
    return Benchmark.model_validate({"name": "mine", "group": "evals", "title": "Mine", "sources": [source | changes]})


def write_lines(path: Path, *rows: object) -> None:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows), encoding="utf-8")


def test_user_files_need_only_an_entry(tmp_path):
    write_lines(tmp_path / "mine.jsonl", {"q": "2+2", "a": 4}, {"q": "1+2\u2028 here", "a": ["3\n"]})
    table = read_benchmark(entry(), [tmp_path])
    assert table["gold"].to_pylist() == ["4", "3"]
    pq.write_table(pa.table({"q": ["2+2"], "a": ["4"]}), tmp_path / "mine.parquet")
    assert read_benchmark(entry(file="mine.parquet"), [tmp_path])["problem"].to_pylist() == ["2+2"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"q": "2+2", "a": None}], "row 1: the gold answer (column a) is empty"),
        ([{"q": "2+2", "a": "4"}, {"q": " ", "b": "4"}], "row 2: no column 'a'; the row has q, b"),
        ([{"q": "2+2", "a": "4"}, {"q": "2+2", "a": "4"}], "repeated: true"),
        (["{]"], "line 1: not JSON"),
        (["[1]"], "line 1: expected a JSON object"),
        ([], "has no row"),
        ([{"q": "2+2", "a": "A", "o": ["only one"]}], "expected a list of 2 to 10 options"),
    ],
)
def test_bad_rows_are_named(tmp_path, rows, expected):
    write_lines(tmp_path / "mine.jsonl", *rows)
    columns = {"problem": "q", "gold": "a", **({"options": "o"} if '"o"' in str(rows).replace("'", '"') else {})}
    with pytest.raises(InputError) as caught:
        read_benchmark(entry(columns=columns), [tmp_path])
    assert expected in str(caught.value)
    assert "mine" in str(caught.value)


def test_bad_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"mine: no file mine.jsonl; searched .*no such folder.*roots setting"):
        read_benchmark(entry(), [tmp_path, tmp_path / "absent"])
    (tmp_path / "mine.jsonl").write_bytes(b'{"q": "\xff"}')
    with pytest.raises(InputError, match="not UTF-8 at byte 7"):
        read_benchmark(entry(), [tmp_path])
    (tmp_path / "mine.parquet").write_text("not parquet")
    with pytest.raises(InputError, match="not a readable parquet file"):
        read_benchmark(entry(file="mine.parquet"), [tmp_path])
    with pytest.raises(InputError, match="limit of 0"):
        read_benchmark(entry(), [tmp_path], limit=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("benchmarks: []", "benchmarks: List should have at least 1 item"),
        ("benchmarks: [{name: a, group: evals, title: A}]", "either `sources` or `generator`"),
        ("benchmarks: [{name: a, group: evals, title: A, grader: vibes}]", "benchmarks.0.grader"),
        ("benchmarks: [{name: a, colour: red}]", "benchmarks.0"),
        (": :", "not readable as YAML"),
    ],
)
def test_bad_suites_are_named(tmp_path, text, expected):
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_suite(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


def test_unknown_suite_lists_the_shipped_ones():
    with pytest.raises(InputError, match=r"'papier': neither a shipped suite \(embedded, paper\) nor a YAML file"):
        load_suite("papier")
