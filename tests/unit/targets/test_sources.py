"""Sources: which columns are read how."""

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from targets.read.sources import find_shards, observe, read_source
from targets.settings import build_config
from targets.trace import Trace


def read(source: Any, **settings: Any) -> list[Trace]:
    return list(read_source(build_config({"source": str(source) if isinstance(source, Path) else source, **settings})))


def test_generations_of_one_row_become_traces_with_their_flags(tmp_path: Path) -> None:
    path = tmp_path / "openr1.parquet"
    rows = [
        {"problem": "p", "answer": "4", "generations": ["a", "b"], "correctness_math_verify": [True, False]},
        {"problem": "q", "answer": "5", "generations": ["c"], "correctness_math_verify": [True]},
        {"problem": "r", "answer": "6", "generations": [], "correctness_math_verify": []},
        {"problem": "s", "answer": "7", "generations": ["d", "e"], "correctness_math_verify": [True]},
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    traces = read(path)
    assert [trace.id for trace in traces] == [f"openr1.parquet:{k}" for k in ("0.0", "0.1", 1, 2, 3)]
    assert [trace.upstream_correct for trace in traces] == [True, False, True, None, None]
    assert [trace.reasons for trace in traces] == [[], [], [], ["no_response"], ["wrong_type"]]


@pytest.mark.parametrize("names", [("problem", "reasoning"), ("question", "rationale"), ("question", "cot")])
def test_thoughts_with_a_bare_answer_are_a_response_with_a_box(names: tuple[str, str], tmp_path: Path) -> None:
    rows = [(f"{number} in Roman numerals?", text, answer) for number, text, answer in ((4, "5-1", "IV"), (5, "", "V"))]
    rows.append(("6?", "5+1", ""))
    lines = [json.dumps({names[0]: asked, names[1]: text, "answer": answer}) for asked, text, answer in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    traces = read(tmp_path / "a.jsonl")
    assert (traces[0].problem, traces[0].gold) == ("4 in Roman numerals?", "IV")
    assert traces[0].response == "<think>\n5-1\n</think>\n\n\\boxed{IV}"
    assert [trace.reasons for trace in traces] == [[], ["no_reasoning"], ["no_gold"]]


@pytest.mark.parametrize(
    ("column", "value", "gold", "lines", "label"),
    [
        ("choices", ["2", "4"], "B", "A) 2\nB) 4", "B"),
        ("options", {"a": "two", "b": "four"}, "b", "A) two\nB) four", "B"),
        ("options", "(1) 2 (2) 4", "2", "A) 2\nB) 4", "B"),
        ("options", {"size": 3}, "4", "", "4"),  # no options
    ],
)
def test_options_of_a_column_follow_their_question(
    column: str, value: Any, gold: str, lines: str, label: str, tmp_path: Path
) -> None:
    rows = [{"problem": text, "answer": gold, "response": "r", column: value} for text in ("2+2?", "2+2? A) 1 B) 2")]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    traces = read(tmp_path / "a.jsonl")
    asked = f"2+2?\n\n{lines}\n" if lines else "2+2?"
    assert [(trace.problem, trace.gold) for trace in traces] == [(asked, label), ("2+2? A) 1 B) 2", gold)]
    named = {"problem": "problem", "answer": "answer", "response": "response", "options": column}
    assert read(tmp_path / "a.jsonl", mapping=named)[0].reasons == ([] if lines else ["wrong_type"])


THOUGHT = [
    {"from": "human", "value": "Find 2+2."},
    {"from": "assistant", "value": "<think>\na\n</think>\n\n\\boxed{4}"},
]
PUBLISHED = {
    "openthoughts": {
        "problem": "Find 2+2.",
        "deepseek_reasoning": "we add",
        "deepseek_solution": "It is \\boxed{4}.",
        "ground_truth_solution": "Adding gives 2+2. Thus \\boxed{4}.",
        "domain": "math",
        "source": "numina_math",
    },
    "openthoughts_math": {
        "source": "aops",
        "problem": "Find 2+2.",
        "solution": "Thus $\\boxed{4}$.",
        "system": "Think.",
        "conversations": THOUGHT,
        "generated_token_count": 7,
        "correct": True,
    },
    "s1k_1.1": {
        "question": "Find 2+2.",
        "solution": "4",
        "cot_type": "math",
        "metadata": "{}",
        "gemini_attempt": "5",
        "deepseek_thinking_trajectory": "we add",
        "deepseek_attempt": "It is \\boxed{4}.",
        "deepseek_grade": "Yes",
    },
    "s1k": {
        "question": "Find 2+2.",
        "solution": "4",
        "thinking_trajectories": ["we add"],
        "attempt": "It is \\boxed{4}.",
    },
    "gsm8k": {"question": "Find 2+2.", "answer": "She has 2+2 = <<2+2=4>>4 eggs.\nThat is all.\n#### 4\n"},
}


@pytest.mark.parametrize("written", [str, str.upper, " {} ".format])
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sets_are_recognised_by_their_columns(
    tmp_path: Path, name: str, written: Callable[[str], str]
) -> None:
    """The columns of the published cards: open-thoughts/OpenThoughts-114k, its math part, simplescaling/s1K(-1.1)."""
    path = tmp_path / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist([{written(column): value for column, value in PUBLISHED[name].items()}]), path)
    for mapping in ("auto", name):
        (trace,) = read(path, mapping=mapping)
        assert not trace.reasons and (trace.problem, trace.gold) == ("Find 2+2.", "4")
        assert trace.response and trace.response.startswith("<think>\n") and "\\boxed{4}" in trace.response
    assert trace.upstream_correct is (True if name in ("openthoughts_math", "s1k_1.1") else None)


@pytest.mark.parametrize(
    ("mapping", "answer", "detail"),
    [
        ("auto", "4", "the answer does not end with a line '#### ANSWER'"),
        ("auto", "Two and two.\n####", "the answer does not end with a line '#### ANSWER'"),
        ({"problem": "question", "answer": "answer", "response": "answer"}, "2+2\n#### 4", "set answer_form: gsm8k"),
    ],
)
def test_an_answer_that_cannot_be_read_says_what_to_do(
    tmp_path: Path, mapping: object, answer: str, detail: str
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": "Find 2+2.", "answer": answer}))
    (trace,) = read(tmp_path / "a.jsonl", mapping=mapping)
    assert trace.reasons == ["no_gold"] and detail in (trace.detail or "")


def test_steps_become_a_target_whose_box_is_their_own_result(jsonl: Any) -> None:
    rows = [
        {"problem": "p", "answer": "13000", "steps": ["1500 * 8 = 12000", "25000 - 12000 = 13000"]},
        {"problem": "q", "answer": "9", "steps": ["8 * 1 = 8"]},
        {"problem": "r", "answer": "1", "steps": []},
        {"problem": "s", "answer": "1", "steps": 1},
        {"problem": "t", "answer": "1", "steps": ["1 = 1", " "]},
        {"problem": "u", "answer": "1", "steps": [1]},
    ]
    traces = read(jsonl(*rows))
    assert traces[0].response == "<think>\n1500 * 8 = 12000\n25000 - 12000 = 13000\n</think>\n\n\\boxed{13000}"
    assert str(traces[1].response).endswith("\\boxed{8}")  # the filters compare it with the gold answer
    assert [trace.reasons for trace in traces[2:]] == [["no_response"], ["wrong_type"], ["no_response"], ["wrong_type"]]


def test_folders_globs_and_other_filesystems_give_the_same_rows(tmp_path: Path, jsonl: Any, good: Any) -> None:
    jsonl(good(1), name="a/one.jsonl")
    jsonl(good(2), name="a/b/two.jsonl")
    jsonl(good(3), name="a/.hidden/three.jsonl")
    (tmp_path / "a/notes.txt").write_text("no data")
    folder = read(tmp_path / "a")
    assert [trace.id for trace in folder] == ["b/two.jsonl:0", "one.jsonl:0"]
    assert [trace.id for trace in read(str(tmp_path / "a/**/*.jsonl"))] == ["b/two.jsonl:0", "one.jsonl:0"]
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/one.jsonl", (tmp_path / "a/one.jsonl").read_bytes())
    assert read("memory://bucket/one.jsonl") == [replace(folder[1], data_source="one")]
    (tmp_path / "array.json").write_text(json.dumps([good(1), good(2)]))
    assert [trace.problem for trace in read(tmp_path / "array.json")] == [good(1)["problem"], good(2)["problem"]]


def test_names_that_clash_stay_apart(tmp_path: Path, jsonl: Any, good: Any) -> None:
    first, second = jsonl(good(1), name="a/x.jsonl"), jsonl(good(2), name="b/x.jsonl")
    ids = [trace.id for trace in read([str(first), str(second)])]
    assert ids == ["a/x.jsonl:0", "b/x.jsonl:0"]


def test_observing_sees_content_not_dates(jsonl: Any, good: Any) -> None:
    path = jsonl(good(1), good(2))
    config = build_config({"source": str(path)})
    first = observe(config)
    assert first.rows == 2
    os.utime(path, (1, 1))
    assert observe(config) == first
    jsonl(good(1), good(3))
    assert observe(config).digest != first.digest
    assert observe(build_config({"embedded_rows": 8})) != observe(build_config({"embedded_rows": 8, "seed": 1}))


def test_log_probabilities_are_read_where_they_are(jsonl: Any) -> None:
    path = jsonl(
        {"problem": "2+2=?", "answer": "4", "response": "\\boxed{4}", "target_log_probs": [-0.5, 0, -1]},
        {"problem": "2+3=?", "answer": "5", "response": "\\boxed{5}"},
        {"problem": "2+4=?", "answer": "6", "response": ["a", "b"], "target_log_probs": [[-1.0], None]},
        *(
            {"problem": "2+5=?", "answer": "7", "response": "\\boxed{7}", "target_log_probs": bad}
            for bad in ([0.1], ["-1"], [True], -1.0, [float("-inf")])
        ),
    )
    traces = list(read(path))
    assert [trace.target_log_probs for trace in traces[:4]] == [[-0.5, 0.0, -1.0], None, [-1.0], None]
    assert [trace.reasons for trace in traces] == [[]] * 4 + [["wrong_type"]] * 5
    assert "0.1 is no log-probability" in (traces[4].detail or "")


def test_a_task_does_not_carry_the_marks_of_all_rows(tmp_path: Path) -> None:
    sizes = []
    for rows in (1, 200_000):
        file = tmp_path / f"{rows:06}.jsonl"
        file.write_text('{"problem": "1", "answer": "1", "response": "1"}\n' * rows)
        (shard,) = find_shards(build_config({"source": str(file)}))
        _ = shard.mapping  # as a preparation does
        piece = shard.pieces()[-1]
        sizes.append(len(pickle.dumps(piece)))
        read = list(pickle.loads(pickle.dumps(piece)).batches())
        assert [trace.row for batch in read for trace in batch] == list(range(piece.start, piece.stop))
    assert sizes[1] < sizes[0] + 50


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_an_empty_part_of_a_problem_is_left_out(tmp_path: Path) -> None:
    row = {"instruction": "Find 1+2.", "input": "", "output": "\\boxed{3}", "answer": "3"}
    file = write(tmp_path / "x.jsonl", row, {**row, "input": "In base 4."}, {**row, "instruction": " "})
    traces = read(file, mapping={"problem": ["instruction", "input"], "answer": "answer", "response": "output"})
    assert [trace.problem for trace in traces] == ["Find 1+2.", "Find 1+2. In base 4.", None]
    assert traces[2].reasons == ["no_problem"]


@pytest.mark.parametrize(("flag", "expected"), [(1, True), (0, False), (1.0, True), ("yes", True), (2, "wrong_type")])
def test_flags_of_correctness(tmp_path: Path, flag: Any, expected: Any) -> None:
    file = write(tmp_path / "x.jsonl", {"q": "Find 1+2.", "a": "3", "r": "\\boxed{3}", "ok": flag})
    (trace,) = read(file, mapping={"problem": "q", "answer": "a", "response": "r", "upstream_correct": "ok"})
    assert (trace.reasons or [trace.upstream_correct]) == [expected]


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_response_that_was_cut_is_rejected(tmp_path: Path, finish: str) -> None:
    row = {"problem": "Find 1+2.", "answer": "3", "response": "<think>\na\n</think>\n\n\\boxed{3}"}
    traces = read(write(tmp_path / "x.jsonl", {**row, "finish_reason": finish}, {**row, "finish_reason": "stop"}))
    assert [trace.reasons for trace in traces] == [["unclosed"], []]
