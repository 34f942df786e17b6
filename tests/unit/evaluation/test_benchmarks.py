"""Suites load without data files; the real files become the right number of problems; bad input names itself."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmark_files import entry, write_lines
from processes import without_rights

from core.errors import InputError
from core.schemas import BENCHMARK
from evaluation.benchmarks.benchmark_problems import read_benchmark, read_suite
from evaluation.benchmarks.suite import Benchmark, load_suite, suite_entries
from evaluation.sample_tables import read_folder

ROOT = Path(__file__).resolve().parents[3]


def test_the_paper_has_its_nine(paper):
    assert [n for n, b in paper.items() if b.group == "evals"] == [
        "aime24", "aime25", "amc", "math500", "minerva", "olympiadbench",
    ]  # fmt: skip
    assert [n for n, b in paper.items() if b.group == "ood"] == ["arc_c", "gpqa_diamond", "mmlu_pro"]
    assert {n: b.samples for n, b in paper.items() if b.samples > 1} == {"aime24": 32, "aime25": 32, "amc": 32}


def test_loading_a_suite_imports_nothing_heavy():
    program = "import sys; from evaluation.benchmarks.suite import load_suite; load_suite('paper'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"pyarrow", "math_verify", "datasets", "pandas", "torch"} & set(loaded.stdout.split())


def test_published_files_have_their_sizes(paper, published):
    roots = [published]
    for name, benchmark in paper.items():
        if name == "mmlu_pro":
            continue  # 12,032 rows: a test of its own reads a part of them
        table = read_benchmark(benchmark, roots, system_prompt="Think.")
        assert table.schema == BENCHMARK
        assert table.num_rows == benchmark.size, name
        assert table["gold"].null_count == 0
        prompt = table["prompt"][0].as_py()
        assert prompt[0] == {"role": "system", "content": "Think."}
        assert "<think>" not in prompt[1]["content"], "the file's own system prompt must not leak into the problem"


def test_both_sources_of_a_benchmark_hold_the_same_problems(paper, published):
    for name in ("aime24", "amc", "math500"):
        both = [read_benchmark(paper[name], [folder]) for folder in (published, published / "collections")]
        assert both[0].num_rows == both[1].num_rows == paper[name].size
        first, second = (sorted(g.removesuffix(".0").lstrip("0") for g in t["gold"].to_pylist()) for t in both)
        assert first == second


def test_mmlu_pro_has_up_to_ten_labelled_options(paper, published):
    table = read_benchmark(paper["mmlu_pro"], [published], limit=200, seed=1)
    assert table.num_rows == 200
    assert any("\nJ) " in problem for problem in table["problem"].to_pylist())
    assert set(table["gold"].to_pylist()) <= set("ABCDEFGHIJ")
    assert table["subject"].null_count == 0


def test_gpqa_boilerplate_is_asked_but_is_not_the_problem(paper, published):
    table = read_benchmark(paper["gpqa_diamond"], [published])
    assert all("ANSWER: $LETTER" in prompt[-1]["content"] for prompt in table["prompt"].to_pylist())
    assert not any("ANSWER: $LETTER" in problem for problem in table["problem"].to_pylist())


def test_a_limit_is_a_stable_sample_of_each_benchmark(paper, published):
    roots = [published]
    ids = read_benchmark(paper["math500"], roots, limit=20, seed=7)["id"].to_pylist()
    together = read_suite([paper["aime24"], paper["math500"]], roots, limit=20, seed=7)
    assert together["id"].to_pylist()[20:] == ids
    assert ids != read_benchmark(paper["math500"], roots, limit=20, seed=8)["id"].to_pylist()
    assert set(ids) < set(read_benchmark(paper["math500"], roots, limit=60, seed=7)["id"].to_pylist())
    assert suite_entries(together) == [paper["aime24"], paper["math500"]]


def test_user_files_need_only_an_entry(tmp_path):
    write_lines(tmp_path / "mine.jsonl", {"q": "2+2", "a": 4}, {"q": "1+2\u2028 here", "a": ["3\n"]})
    table = read_benchmark(entry(), [tmp_path])
    assert table["gold"].to_pylist() == ["4", "3"]
    pq.write_table(pa.table({"q": ["2+2"], "a": ["4"]}), tmp_path / "mine.parquet")
    assert read_benchmark(entry(file="mine.parquet"), [tmp_path])["problem"].to_pylist() == ["2+2"]


def test_whoever_has_none_of_the_papers_files_hears_where_they_are(tmp_path):
    for benchmark in load_suite("paper"):
        with pytest.raises(InputError) as caught:
            read_benchmark(benchmark, [tmp_path])
        said = str(caught.value)
        assert "github.com/ElliottYan/LUFFY" in said or "TIGER-Lab/MMLU-Pro" in said
        assert "\n" not in said


def test_a_prompt_of_the_entry_surrounds_the_problem_and_is_not_part_of_it(tmp_path):
    write_lines(tmp_path / "mine.jsonl", {"q": "2+2", "a": 4})
    asked = entry().model_copy(update={"prompt": "Solve: {problem}\nGive a number."})
    row = read_benchmark(asked, [tmp_path], system_prompt="S.").to_pylist()[0]
    assert row["problem"] == "2+2"
    assert row["prompt"] == [
        {"role": "system", "content": "S."}, {"role": "user", "content": "Solve: 2+2\nGive a number."},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "row", "expected"),
    [
        ({}, {"q": "2+2", "a": "2+2=4\n#### 4"}, "row 1: column a: the answer is a solution that ends with '#### 4'"),
        (
            {"answer_form": "gsm8k"},
            {"q": "2+2", "a": "4"},
            "row 1: column a: the answer does not end with a line '####",
        ),
        ({"answer_form": "gsm8k"}, {"q": "2+2", "a": ""}, "row 1: the gold answer (column a) is empty"),
    ],
)
def test_a_gold_answer_that_cannot_be_read_is_an_error(tmp_path, source, row, expected):
    write_lines(tmp_path / "mine.jsonl", row)
    with pytest.raises(InputError, match=re.escape(expected)):
        read_benchmark(entry(**source), [tmp_path])


def test_the_columns_of_a_problem_are_joined(tmp_path):
    write_lines(tmp_path / "mine.jsonl", {"body": "He has 2 eggs.", "question": "How many?", "a": 2})
    columns = {"problem": ["body", "question"], "gold": "a"}
    assert read_benchmark(entry(columns=columns), [tmp_path])["problem"].to_pylist() == ["He has 2 eggs. How many?"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"split": "test"}, "give a `file`, or the `split`"),
        ({"subset": "main"}, "give a `file`, or the `split`"),
        ({"hub": "some/set"}, "`hub` and `revision` belong together"),
        ({"shuffle_options": True}, "`shuffle_options` needs `columns.options`"),
        ({"index_base": 0}, "`index_base` needs `verifier: choice`"),
        ({"columns": {"labels": "l"}}, "`columns.labels` needs `columns.options`"),
    ],
)
def test_half_a_source_is_refused(change, expected):
    with pytest.raises(ValueError, match=expected):
        entry(**change)


def test_a_prompt_without_a_place_for_the_problem_is_refused():
    source = {"file": "mine.jsonl"}
    with pytest.raises(ValueError, match=r"`prompt` lacks \{problem\}"):
        Benchmark.model_validate({"name": "m", "group": "ood", "title": "M", "sources": [source], "prompt": "Answer."})


def test_published_scores_are_those_of_the_paper(paper):
    scores = {name: benchmark.published.scores for name, benchmark in paper.items()}
    in_domain = [scores[name] for name, benchmark in paper.items() if benchmark.group == "evals"]
    ood = [scores[name] for name, benchmark in paper.items() if benchmark.group == "ood"]
    # the averages that the paper prints, of numbers that it has rounded
    for model, averages in {"Qwen2.5-Math-7B": (19.0, 15.4), "LUFFY": (50.1, 57.8)}.items():
        found = [sum(s[model] for s in group) / len(group) for group in (in_domain, ood)]
        assert found == pytest.approx(averages, abs=0.06)


def test_a_benchmark_can_be_a_sample_of_its_file(tmp_path):
    write_lines(tmp_path / "all.jsonl", *({"id": f"p-{n}", "problem": f"What is {n}?", "answer": n} for n in range(50)))
    source = {"file": "all.jsonl", "columns": {"id": "id", "problem": "problem", "gold": "answer"}}
    fields = {"name": "drawn", "group": "evals", "title": "Drawn", "sample": 20, "sources": [source]}
    drawn = Benchmark.model_validate(fields)
    ids = read_benchmark(drawn, [tmp_path])["id"].to_pylist()
    assert len(ids) == 20 and ids == read_benchmark(drawn, [tmp_path])["id"].to_pylist()
    assert set(read_benchmark(drawn, [tmp_path], limit=5)["id"].to_pylist()) < set(ids)
    assert read_benchmark(drawn, [tmp_path], limit=40)["id"].to_pylist() == ids
    with pytest.raises(InputError, match="benchmark drawn: sample: 51, but its files have 50 problems"):
        read_benchmark(drawn.model_copy(update={"sample": 51}), [tmp_path])


def test_a_file_beside_a_suite_is_found(tmp_path: Path) -> None:
    entry = "{name: mine, group: ood, title: Mine, sources: [{file: data/mine.jsonl, columns: {problem: q, gold: a}}]}"
    suite = tmp_path / "suite.yaml"
    suite.write_text(f"benchmarks: [{entry}]")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.jsonl").write_text('{"q": "1+1=?", "a": "2"}')
    assert read_suite(load_suite(suite), []).num_rows == 1


def test_a_folder_of_samples_that_may_not_be_read_is_named() -> None:
    with without_rights(0o300) as folder, pytest.raises(InputError, match=f"{folder}: no right to read the folder"):
        read_folder(folder, "samples")
