"""Preparation: every row is kept or rejected with its reason, once; the same bytes whatever the circumstances."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from preparing import rows, run

from core.errors import InputError
from core.schemas import BENCHMARK, PROFILE, REJECTED, TARGET
from targets import files
from targets.filter import decisions
from targets.prepared_files import read_prepared
from targets.read import sources
from targets.select import write
from targets.select.split import reconcile, select_train

LINES = "".join(f"{k * k * 7919:x} {k * k * 104729:o}\nand once more: it is\n" for k in range(20))
RUNS = " ".join(
    f"{k * k * 7919:x} {'one two three four five six seven eight ' * 2}{k * k * 104729:o}" for k in range(20)
)
LOOP = "<think>\n" + "and again we add one to it\n" * 200 + "</think>\n\n\\boxed{4}"


def benchmark(*problems: str) -> pa.Table:
    items = [{"benchmark": "aime24", "id": f"item-{k}", "problem": problem} for k, problem in enumerate(problems)]
    return pa.Table.from_pylist(items, schema=BENCHMARK)


def test_each_reason_is_given_to_the_row_that_earns_it(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    cases: list[tuple[Any, str | None]] = [
        (good(1), None),
        (good(1, response="<think>\nother words\n</think>\n\n\\boxed{2}"), "too_many_per_problem"),
        (good(2, response="<think>\nhm\n</think>\n\n\\boxed{5}"), "wrong"),
        (good(3, response="<think>\nhm"), "unclosed"),
        (good(4, response="<think>\nhm\n</think>\n\neight"), "no_box"),
        (good(5, answer=None), "no_gold"),
        (good(6, answer="see proof"), "proof"),
        (good(7, problem="What is shown? [asy] draw((0,0)); [/asy]"), "figure"),
        (good(8, problem="Which? (A) one (B) two (C) three", answer="B"), "choice_gold"),
        (good(9, problem="nul \0 inside"), "bad_text"),
        ('{"problem": "lone \\ud800", "answer": "4", "response": "<think>a</think>\\\\boxed{4}"}', "bad_text"),
        (good(10, response="<think>\n" + "x" * 20_000 + "\n</think>\n\n\\boxed{20}"), "too_large"),
        (good(2, response=LOOP), "loop"),
        (
            good(12, response="<think>\n" + "\u6211\u4eec\u52a0\u8d77\u6765" + "\n</think>\n\n\\boxed{24}"),
            "foreign_script",
        ),
        (good(13, problem="p " * 700, answer="26"), "prompt_too_long"),
        (good(14, response="<think>\n" + os.urandom(4500).hex() + "\n</think>\n\n\\boxed{28}"), "target_too_long"),
        (good(15, problem="Find the number of ways to seat six knights at a round table."), "contaminated"),
        (good(1, problem=good(1)["problem"].replace("market", "Market  ")), "too_many_per_problem"),
        (good(1, problem=good(1)["problem"].replace("has he", "does he have")), "near_duplicate"),
        ("{not json", "unreadable"),
        (
            good(16, answer="9^{9^{9^9}}", response="<think>\nhm\n</think>\n\n\\boxed{9^{9^9}}"),
            "verify_error|verify_timeout|wrong|gold_unparsed",
        ),
        (good(17), None),
        (good(18, response="<think>\nhm\n</think>\n\nI'm sorry, but I can't help with that."), "refusal"),
        (good(19, response=f"<think>\n{LINES}</think>\n\n\\boxed{{38}}"), "line_loop"),
        (good(20, response=f"<think>\n{RUNS}\n</think>\n\n\\boxed{{40}}"), "ngram_loop"),
        (good(21, problem="Prove that there are infinitely many primes.", answer="42"), "proof"),
        (good(22, answer="Proof omitted."), "proof"),
        (good(23, answer="notfound"), "proof"),
        (good(24, response="<think>\nhm\n</think>\n\n\\\\boxed{48}"), "double_escaped"),
        (good(25, response="<think>\nso \\\\frac{50}{1} it is\n</think>\n\n\\boxed{50}"), "double_escaped"),
    ]
    prepared = run(
        jsonl(*(case for case, _ in cases)),
        tmp_path / "out",
        tokenizer,
        workers=2,
        benchmarks=benchmark("Find the number of ways to seat six knights at a round table."),
        max_text_bytes=20_000,
        near_duplicate=90,
        grade_limit_s=1.0,
    )
    rejected = {row["row"]: row for row in rows(prepared.rejected)}
    kept = {int(row["extra_info"]["id"].split(":")[1]) for row in rows(prepared.prepared)}
    assert kept | rejected.keys() == set(range(len(cases)))
    assert not kept & rejected.keys()
    for number, (_, reason) in enumerate(cases):
        if reason is None:
            assert number in kept
        else:
            assert rejected[number]["reason"] in reason.split("|"), (number, reason, rejected[number])
            assert rejected[number]["detail"]
            assert rejected[number]["reasons"][0] == rejected[number]["reason"]
    assert "aime24/item-0" in rejected[16]["detail"]
    assert rejected[22]["reasons"] == ["refusal", "no_box"]  # every filter that looks at the text alone is named
    assert rejected[6]["reasons"] == ["proof"]
    assert prepared.all_reasons["no_box"] == prepared.counts["no_box"] + 1
    assert (
        prepared.counts["read"]
        == len(cases)
        == prepared.counts["kept"] + sum(s["removed"] for s in prepared.filter_counts)
    )
    assert prepared.filter_counts[-1]["left"] == prepared.counts["kept"]


def test_files_have_their_schemas_and_say_how_they_were_made(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any
) -> None:
    source = jsonl(*(good(k) for k in range(1, 8)))
    prepared = run(source, tmp_path / "out", tokenizer, system_prompt="Think first.", benchmarks=benchmark("another"))
    for path, schema in ((prepared.prepared, TARGET), (prepared.profile, PROFILE), (prepared.rejected, REJECTED)):
        assert pq.read_schema(path).equals(schema), path
        metadata = pq.read_schema(path).metadata
        assert metadata[b"config_digest"].decode() == prepared.config.digest()
        assert json.loads(metadata[b"source"]) == [str(source)]
    first = rows(prepared.prepared)[0]
    assert first["prompt"] == [
        {"role": "system", "content": "Think first."},
        {"role": "user", "content": good(1)["problem"]},
    ]
    assert [message["role"] for message in first["target"]] == ["assistant"]
    assert first["reward_model"] == {"style": "math", "ground_truth": "2"}
    profile = rows(prepared.profile)[0]
    rendered = f"Ssystem\nThink first.E\nSuser\n{good(1)['problem']}E\nSassistant\n"  # S, E: the tokens <|im_…|>
    assert profile["prompt_tokens"] == len(rendered)
    assert profile["target_tokens"] == len(first["target"][0]["content"]) + 1  # and the end token
    assert profile["benchmark_overlap"] is False
    assert read_prepared(tmp_path / "out") == prepared


def test_the_same_bytes_whatever_the_workers_and_batches(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fractions = [
        good(k, answer=f"\\frac{{{k}}}{{7}}", response=f"<think>\nhm\n</think>\n\n\\boxed{{{k}/7}}")
        for k in range(1, 7)
    ]
    source = jsonl(*fractions, *(good(k) for k in range(1, 40)), good(3), "{", good(4, answer=None))
    first = run(source, tmp_path / "one", tokenizer, workers=1)
    monkeypatch.setattr(sources, "TRACES_PER_BATCH", 7)
    monkeypatch.setattr(files, "ROWS_PER_READ", 5)
    second = run(source, tmp_path / "two", tokenizer, workers=2)
    for name in ("prepared", "profile", "rejected"):
        assert getattr(first, name).read_bytes() == getattr(second, name).read_bytes(), name
    assert first.digest == second.digest
    changed = run(source, tmp_path / "three", tokenizer, keep="shortest", traces_per_problem=2)
    assert changed.digest != first.digest


def test_problems_that_differ_in_case_or_blanks_are_one_only_with_one_answer(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any
) -> None:
    def asked(problem: str, answer: str) -> dict[str, Any]:
        return good(1, problem=problem, answer=answer, response=f"<think>\nhm\n</think>\n\n\\boxed{{{answer}}}")

    source = jsonl(
        asked("Add 2 1/3 to 5, and write a fraction.", "\\frac{22}{3}"),
        asked("Add 21/3 to 5, and write a fraction.", "12"),
        asked("If N = 4 and n = 9, what is N?", "4"),
        asked("If N = 4 and n = 9, what is n?", "9"),
        asked("If n = 4 and N = 9, what is n?", "4"),  # the third in other letters, with its answer
        asked("How many zeros has 10 000?", "4"),
        asked("How many zeros has 10000?", "4"),
        asked("How many  zeros has $10000$?", "5"),  # the same spelling: one problem, whatever its answer
    )
    prepared = run(source, tmp_path / "out", tokenizer)
    assert [int(row["extra_info"]["id"].split(":")[1]) for row in rows(prepared.prepared)] == [0, 1, 2, 3, 5]
    assert {row["reason"] for row in rows(prepared.rejected)} == {"too_many_per_problem"}
    assert list(prepared.hints) == [""]
    assert "1 problem has traces with gold answers of different texts" in prepared.hints[""]
    profile = rows(prepared.profile)
    assert len({row["problem_digest"] for row in profile}) == len(profile)


def test_several_files_have_the_rows_of_one(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    for number in range(5):
        jsonl(*(good(40 * number + k) for k in range(1, 40)), good(1), name=f"in/{number}.jsonl")
    whole = run(tmp_path / "in", tmp_path / "whole", tokenizer)
    split = select_train(whole, tmp_path / "whole", heldout_share=0.2, max_rows=120)
    folders = []
    for workers in (1, 2):
        folders.append(tmp_path / f"workers{workers}")
        parts = run(tmp_path / "in", folders[-1], tokenizer, rows_per_file=70, workers=workers)
        in_parts = select_train(parts, folders[-1], heldout_share=0.2, max_rows=120)
        assert parts.counts == whole.counts and parts.digest != whole.digest
        for name in ("prepared", "profile", "rejected"):
            assert not getattr(parts, name).exists()
            assert rows(getattr(parts, name)) == rows(getattr(whole, name)), name
        for name in ("train", "heldout", "left_out"):
            assert rows(getattr(in_parts, name)) == rows(getattr(split, name)), name
        assert in_parts.rows == split.rows and not reconcile(parts, in_parts).problems
    first, second = ({file.name: file.read_bytes() for file in folder.glob("*.parquet")} for folder in folders)
    assert first == second and "train-00002-of-00003.parquet" in first
    everything = select_train(parts, tmp_path / "all")  # without a row held out or left over
    written = sorted(file.name for file in (tmp_path / "all").glob("*.parquet"))
    assert written == ["heldout.parquet", "left_out.parquet", *(f"train-0000{n}-of-00003.parquet" for n in range(3))]
    assert everything.heldout_rows == 0 and not reconcile(parts, everything).problems
    # One file takes the place of several, and the other way round.
    again = run(tmp_path / "in", folders[0], tokenizer)
    assert again.digest == whole.digest and not list(folders[0].glob("prepared-*"))
    (folders[1] / "prepared-00001-of-00003.parquet").unlink()
    with pytest.raises(InputError, match=r"prepared.parquet: expected prepared-00000-of-00003.parquet to"):
        read_prepared(folders[1])


def test_a_limit_holds_over_all_sources(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    for number in range(3):
        jsonl(*(good(10 * number + k) for k in range(1, 6)), name=f"in/{number}.jsonl")
    prepared = run(tmp_path / "in", tmp_path / "out", tokenizer, limit=8)
    assert [row["extra_info"]["id"] for row in rows(prepared.prepared)][-2:] == ["1.jsonl:1", "1.jsonl:2"]
    assert prepared.counts["read"] == 8


def test_a_row_that_vanishes_is_noticed(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proofs of conservation: lose a row on the way, or twist the files, and they must fail."""
    source = jsonl(good(1), good(2, answer=None), good(3), good(4))
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="conservation violated: 4 traces read, 3"):
        patch.setattr(write._Writers, "_reject", lambda *_: None)
        run(source, tmp_path / "out", tokenizer)
    filter_traces = decisions.filter_traces
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="row 2 follows 1 of 1 traces of row 0"):
        patch.setattr(decisions, "filter_traces", lambda *a, **k: [filter_traces(*a, **k)[n] for n in (0, 2, 3)])
        run(source, tmp_path / "out", tokenizer)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="3 rows read, the source has 4"):
        patch.setattr(decisions, "filter_traces", lambda *a, **k: filter_traces(*a, **k)[:3])
        run(source, tmp_path / "out", tokenizer)
    assert not (tmp_path / "out").exists()


def test_every_trace_is_accounted_for_in_the_split(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    source = jsonl(*(good(k) for k in range(1, 60)), good(70, answer=None), good(3))
    prepared = run(source, tmp_path / "out", tokenizer)
    split = select_train(prepared, tmp_path / "out", heldout_share=0.2, max_rows=30)
    done = reconcile(prepared, split)
    assert done.problems == () and done.read == 61 == sum(done.rows.values())
    assert done.rows["left_out"] == 59 - 30 - done.rows["heldout"]
    assert {row["reason"] for row in rows(split.left_out)} == {"over_max_rows"}
    stamp = split.train.stat().st_mtime_ns
    assert select_train(prepared, tmp_path / "out", heldout_share=0.2, max_rows=30) == split
    assert split.train.stat().st_mtime_ns == stamp
    table = pq.read_table(split.left_out)
    pq.write_table(table.slice(1), split.left_out)
    assert reconcile(prepared, split).problems == ("61 traces read, 60 accounted for",)
    pq.write_table(pa.concat_tables([table.slice(1), table.slice(1, 1)]), split.left_out)
    assert "not the same traces" in reconcile(prepared, split).problems[0]
    place = table.column_names.index("reasons")
    empty = pa.array([[]] * table.num_rows, table.schema.field("reasons").type)
    pq.write_table(table.set_column(place, "reasons", empty), split.left_out)
    assert reconcile(prepared, split).problems == ("a rejected trace has no reason",)
