"""``python -m evaluation`` from suite to scorecard on stored responses; every command explains itself."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pages import page_data

from core.arithmetic import problems
from core.files import write_table
from core.schemas import SAMPLE
from evaluation.__main__ import main


def respond(suite: pa.Table, folder: Path, right: float) -> None:
    """Stored samples: the teacher's own trace for a share of the problems, a wrong or missing answer for the rest."""
    teacher = {p.id: p.trace for split in ("test", "long") for p in problems(split, 30, seed=0)}
    for name in suite["benchmark"].unique().to_pylist():
        rows = [row for row in suite.to_pylist() if row["benchmark"] == name]
        samples = []
        for number, row in enumerate(rows):
            wrong = "<think>\n</think>\n\n\\boxed{-1}" if number % 2 else "<think> and so on"
            response = teacher[row["id"]] if number < right * len(rows) else wrong
            samples.append(
                {
                    "benchmark": name, "id": row["id"], "sample": 0, "prompt": row["problem"], "response": response,
                    "tokens": len(response), "finish_reason": "stop" if "</think>" in response else "length", "seed": 0,
                }
            )  # fmt: skip
        table = pa.Table.from_pylist(samples, schema=SAMPLE)
        write_table(table, folder / f"{name}.parquet", {"checkpoint": folder.name})


@pytest.fixture(scope="module")
def graded_folders(tmp_path_factory):
    """(suite file, base results, policy results), made by the commands themselves."""
    folder = tmp_path_factory.mktemp("run")
    suite = folder / "suite.parquet"
    chosen = ("--set", "suite.only=[arithmetic, arithmetic_long]")
    assert main(["suite", *chosen, "--limit", "30", "--out", str(suite)]) == 0
    for role, right in (("base", 0.1), ("policy", 0.8)):
        respond(pq.read_table(suite), folder / "samples" / role, right)
        out = folder / role
        assert (
            main(["grade", "--suite", str(suite), "--samples", str(folder / "samples" / role), "--out", str(out)]) == 0
        )
    return suite, folder / "base", folder / "policy"


def test_all_samples_are_on_one_page(graded_folders, tmp_path):
    _, _, policy = graded_folders
    assert main(["browse", str(policy), "--out", str(tmp_path / "page.html")]) == 0
    index, texts = page_data(tmp_path / "page.html")
    rows = [row for file in sorted(policy.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    assert index["ids"] == [f"{row['benchmark']}/{row['id']}/0" for row in rows]
    verdict, benchmark, *_ = index["facets"]
    assert [verdict["values"][code] for code in verdict["codes"]] == [row["verdict"] for row in rows]
    assert [benchmark["values"][code] for code in benchmark["codes"]] == [row["benchmark"] for row in rows]
    assert [row[:3] for row in texts] == [[row["prompt"], row["gold"], row["response"]] for row in rows]


def test_compare(graded_folders, capsys):
    _, base, policy = graded_folders
    assert main(["compare", str(base), str(policy), "--pass-at", "1"]) == 0
    out = capsys.readouterr().out
    assert "pass@1" in out.splitlines()[0] and "+70.0 [" in out
    assert "exact McNemar" in out


def test_a_report_wants_the_suite_that_graded(graded_folders, tmp_path, capsys):
    suite, base, policy = graded_folders
    table = pq.read_table(suite)
    golds = pa.array(["7", *table["gold"].to_pylist()[1:]])
    write_table(table.set_column(table.schema.get_field_index("gold"), "gold", golds), tmp_path / "other.parquet")
    results = ("--base", str(base), "--policy", str(policy), "--out", str(tmp_path / "card.html"))
    assert main(["report", "--suite", str(tmp_path / "other.parquet"), *results]) == 2
    assert f"--base {base}: arithmetic: graded with other problems or gold answers" in capsys.readouterr().err


def test_compare_says_what_else_differs(graded_folders, tmp_path, capsys):
    _, base, policy = graded_folders
    other = {"sampling": '{"temperature": 1.0, "samples": 1}', "grading": '{"verifiers": {"number": "d"}}'}
    for file in policy.glob("*.parquet"):
        table = pq.read_table(file)
        again = table.set_column(2, table.schema.field("sample"), pa.array([1] * len(table), pa.int32()))
        write_table(pa.concat_tables([table, again]).replace_schema_metadata(other), tmp_path / file.name)
    assert main(["compare", str(base), str(policy)]) == 0
    assert "note: " not in capsys.readouterr().out
    assert main(["compare", str(base), str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"note: arithmetic, arithmetic_long: the verifier changed after one of {base} and {tmp_path} was" in out
    assert f"note: {base} and {tmp_path} were sampled with different settings: the model is not the only cause" in out
    assert f"{tmp_path}, avg@2" in out


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("--no-thinking", "answers anywhere"),
        ("--truncated=by_text", "answers after </think>, cut samples by their text"),
    ],
)
def test_results_of_different_rules_are_not_compared_silently(graded_folders, tmp_path, capsys, rule, said):
    suite, base, policy = graded_folders
    samples = base.parent / "samples/base"
    again, card = str(tmp_path / "base"), tmp_path / "card.md"
    assert main(["grade", "--suite", str(suite), "--samples", str(samples), "--out", again, rule]) == 0
    assert main(["compare", again, str(policy)]) == 0
    note = f"graded by different rules ({again}: {said}; {policy}: answers after </think>)"
    assert f"note: arithmetic, arithmetic_long: {again} and {policy} were {note}" in capsys.readouterr().out
    outputs = ["--out", str(tmp_path / "card.html"), "--markdown", str(card)]
    assert main(["report", "--suite", str(suite), "--base", again, "--policy", str(policy), *outputs]) == 0
    note = f"graded by different rules (base: {said}; policy:".replace("</think>", "&lt;/think&gt;")
    assert note in card.read_text("utf-8")


def test_graded_results_are_compared_as_they_are(graded_folders, tmp_path, capsys):
    _, base, policy = graded_folders
    for name, folder in (("arithmetic", base), ("arithmetic_long", policy)):
        write_table(pq.read_table(folder / f"{name}.parquet"), tmp_path / f"{name}.parquet")
    assert main(["compare", str(policy), str(tmp_path)]) == 2
    assert f"{tmp_path}: its scores are of different checkpoints (base, policy)" in capsys.readouterr().err
    for given in (
        ["--limit", "1"],
        ["--set", "suite.only=[arithmetic]"],
        ["--samples", "1"],
        ["--out", str(tmp_path / "new")],
    ):
        assert main(["compare", str(base), str(policy), *given]) == 2
        error = capsys.readouterr().err
        assert f"compare: {given[0]} would change nothing: graded results" in error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("key", "value"), [("sampling", "warm"), ("grading", "[1]"), ("template", "{")])
def test_metadata_of_another_form_is_one_message(graded_folders, tmp_path, capsys, key, value):
    suite, base, policy = map(str, graded_folders)
    file = tmp_path / "results" / "arithmetic.parquet"
    write_table(pq.read_table(Path(policy) / "arithmetic.parquet").replace_schema_metadata({key: value}), file)
    results = str(file.parent)
    for command in (
        ["grade", "--suite", suite, "--samples", results, "--out", str(tmp_path / "out")],
        ["compare", base, results],
        ["report", "--suite", suite, "--base", base, "--policy", results, "--out", str(tmp_path / "out.html")],
        ["leaderboard", "--results", results],
    ):
        assert main(command) == 2
        assert f"{file}: its metadata '{key}' is not a JSON object; expected a file of" in capsys.readouterr().err
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.html").exists()


def test_nothing_is_graded_before_all_samples_are_checked(graded_folders, tmp_path, capsys):
    suite, base, _ = graded_folders
    table = pq.read_table(base.parent / "samples/base/arithmetic.parquet")
    names = pa.array(["chess"] * table.num_rows)
    write_table(table, tmp_path / "samples/arithmetic.parquet")
    write_table(table.set_column(0, "benchmark", names), tmp_path / "samples/chess.parquet")
    grade = ["grade", "--suite", str(suite), "--samples", str(tmp_path / "samples"), "--out", str(tmp_path / "out")]
    assert main(grade) == 2
    assert "samples of chess: not in the suite, which has arithmetic, arithmetic_long" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_leaderboard(graded_folders, tmp_path, capsys):
    _, base, _ = graded_folders
    board = tmp_path / "board.md"
    assert main(["leaderboard", "--results", str(base.parent), "--markdown", str(board)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("60 problems, digest ") and lines[0].split("; ")[1].startswith("sampling not recorded")
    assert lines[2].split()[:3] == ["1", "policy", "80.0%"]
    assert "| 2 | base | 10.0% | -70.0 [" in board.read_text(encoding="utf-8")


def test_texts_that_are_not_utf_8_are_named(graded_folders, tmp_path, capsys):
    suite, base, _ = graded_folders
    table = pq.read_table(base.parent / "samples/base/arithmetic.parquet")
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    column = pa.chunked_array([broken, table["response"].slice(1).combine_chunks()])
    write_table(table.set_column(4, "response", column), tmp_path / "samples/arithmetic.parquet")
    assert main(["grade", "--suite", str(suite), "--samples", str(tmp_path / "samples"), "--out", str(tmp_path)]) == 2
    assert "arithmetic.parquet: not a readable parquet file" in capsys.readouterr().err


def test_report(graded_folders, tmp_path, capsys):
    suite, base, policy = graded_folders
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text("".join(json.dumps({"step": i, "data": {"reward/on_policy": i / 4}}) + "\n" for i in range(4)))
    page, markdown = tmp_path / "out/card.html", tmp_path / "out/card.md"
    arguments = ["--suite", suite, "--base", base, "--policy", policy, "--out", page, "--markdown", markdown]
    assert main(["report", *map(str, arguments), "--metrics", str(metrics)]) == 0
    assert "+70.0" in capsys.readouterr().out
    assert "Reward of on-policy samples" in page.read_text(encoding="utf-8")
    assert markdown.read_text(encoding="utf-8").startswith("**The trained model is better than the base on 2 of 2")
