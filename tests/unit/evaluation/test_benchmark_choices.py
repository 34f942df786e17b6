"""Multiple choice: letters for labels of any kind, and options that are shuffled by a seed."""

import pytest
from benchmark_files import entry, write_lines

from core.errors import InputError
from evaluation.benchmarks.benchmark_problems import read_benchmark
from grading.grader import Grader

OPTIONS = {"q": "Which?", "o": {"text": ["red", "green", "blue", "grey"], "label": ["1", "2", "3", "4"]}, "a": "3"}
CHOICE = {"problem": "q", "options": "o.text", "labels": "o.label", "gold": "a"}


def test_options_labelled_1_to_4_get_letters(tmp_path):
    write_lines(tmp_path / "mine.jsonl", OPTIONS)
    for columns in (CHOICE, {k: v for k, v in CHOICE.items() if k != "labels"}):  # mapped, or only implied by the gold
        table = read_benchmark(entry(columns=columns), [tmp_path])
        assert table["gold"].to_pylist() == ["C"]
        assert "C) blue" in table["problem"][0].as_py()
    write_lines(tmp_path / "mine.jsonl", OPTIONS | {"a": "5"})
    with pytest.raises(
        InputError, match=r"row 1: gold answer '5' is not the label of any of its 4 options \(1, 2, 3, 4\)"
    ):
        read_benchmark(entry(columns=CHOICE), [tmp_path])


def test_arc_has_options_labelled_1_to_4_and_its_golds_are_accepted_as_place_or_letter(paper, published):
    table = read_benchmark(paper["arc_c"], [published])
    digits = [row for row in table.to_pylist() if row["gold"].isdigit()]
    assert len(digits) == 22
    assert all(f"{row['gold']}) " in row["problem"] for row in digits)
    with Grader() as grader:
        for row in digits:
            letter = "ABCD"[int(row["gold"]) - 1]
            assert grader.grade(f"</think>\\boxed{{{row['gold']}}}", row["gold"], "choice").score == 1
            assert grader.grade(f"</think>ANSWER: {letter}", row["gold"], "choice").score == 1


def test_shuffled_options_follow_the_seed_and_keep_the_right_one(paper, published, tmp_path):
    mmlu = paper["mmlu_pro"]
    shuffled = mmlu.model_copy(update={"sources": (mmlu.sources[0].model_copy(update={"shuffle_options": True}),)})

    def read(benchmark, seed):
        (tmp_path / "mmlu_pro_test.jsonl").write_bytes(lines)
        return {row["id"]: row for row in read_benchmark(benchmark, [tmp_path], seed=seed).to_pylist()}

    def right(row):
        return next(line[3:] for line in row["problem"].split("\n") if line.startswith(f"{row['gold']}) "))

    with (published / "mmlu_pro_test.jsonl").open("rb") as file:
        lines = b"".join(next(file) for _ in range(300))
    plain, first, again, other = read(mmlu, 0), read(shuffled, 0), read(shuffled, 0), read(shuffled, 1)
    assert first == again
    assert all(right(first[i]) == right(plain[i]) == right(other[i]) for i in plain)
    moved = sum(first[i]["gold"] != plain[i]["gold"] for i in plain)
    assert 0.7 < moved / len(plain) < 1  # one in ten options stays in its place by chance
    assert any(first[i]["gold"] != other[i]["gold"] for i in plain)
