"""Multiple choice: letters for labels of any kind, and options that are shuffled by a seed."""

import pytest
from benchmark_files import entry, write_lines

from core.errors import InputError
from evaluation.benchmarks.benchmark_problems import read_benchmark
from grading.verifiers.spec import open_verifier, parse_spec

OPTIONS = {"q": "Which?", "o": {"text": ["red", "green", "blue", "grey"], "label": ["1", "2", "3", "4"]}, "a": "3"}
CHOICE = {"problem": "q", "options": "o.text", "labels": "o.label", "gold": "a"}


def score(answer, row):
    """Of an answer to a row of a benchmark, with the fields that evaluation passes on."""
    with open_verifier(parse_spec("choice", "test")) as verifier:
        return verifier.verify(f"<think></think>{answer}", row["gold"], fields={"problem": row["problem"]}).score


def test_options_labelled_1_to_4_get_letters(tmp_path):
    write_lines(tmp_path / "mine.jsonl", OPTIONS)
    for columns in (CHOICE, {k: v for k, v in CHOICE.items() if k != "labels"}):  # mapped, or only implied by the gold
        table = read_benchmark(entry(columns=columns), [tmp_path])
        assert table["gold"].to_pylist() == ["C"]
        assert "C) blue" in table["problem"][0].as_py()
    write_lines(tmp_path / "mine.jsonl", OPTIONS | {"a": "5"})
    with pytest.raises(
        InputError, match=r"row 1: column a: gold answer '5' is not the label of any of its 4 options \(1, 2, 3, 4\)"
    ):
        read_benchmark(entry(columns=CHOICE), [tmp_path])


def test_arc_has_options_labelled_1_to_4_and_its_golds_are_accepted_as_place_or_letter(paper, published):
    table = read_benchmark(paper["arc_c"], [published])
    digits = [row for row in table.to_pylist() if row["gold"].isdigit()]
    assert len(digits) == 22
    assert all(f"{row['gold']}) " in row["problem"] for row in digits)
    for row in digits:
        letter = "ABCD"[int(row["gold"]) - 1]
        assert score(f"\\boxed{{{row['gold']}}}", row) == score(f"ANSWER: {letter}", row) == 1


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


TEXTS = ["5(2x)", "1.5", "none of these", "A. Einstein"]


@pytest.mark.parametrize(
    "options",
    [
        [f"{label}){text}" for label, text in zip("ABCD", TEXTS, strict=True)],
        [f"({label}) {text}" for label, text in zip("ABCD", TEXTS, strict=True)],
        [f" {label}. {text}" for label, text in zip("1234", TEXTS, strict=True)],
        dict(zip("ABCD", TEXTS, strict=True)),
        {"A": TEXTS[0], "B": TEXTS[1], "C": TEXTS[2], "D": TEXTS[3], "E": None},  # as parquet reads a missing key
        dict(zip(["w", "x", "y", "z"], TEXTS, strict=True)),
        "A) 5(2x) B) 1.5 C) none of these D) A. Einstein",
        [f"{label}: {text}" for label, text in zip("1234", TEXTS, strict=True)],
        [f"{label}:{text}" for label, text in zip("ABCD", TEXTS, strict=True)],
        "(A) 5(2x)\n(B) 1.5\n(C) none of these\n(D) A. Einstein",
        TEXTS,
    ],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_options_of_every_form_get_one_label_and_keep_the_right_one(tmp_path, options, shuffle):
    is_numbered = any(mark in str(options) for mark in ("1. ", "1: "))
    labels = "1234" if is_numbered else "wxyz" if isinstance(options, dict) and "w" in options else "ABCD"
    columns = {"problem": "q", "options": "o", "gold": "a"}
    for label, right in zip(labels, TEXTS, strict=True):
        write_lines(tmp_path / "mine.jsonl", {"q": "Which?", "o": options, "a": label})
        row = read_benchmark(
            entry(columns=columns, shuffle_options=shuffle, verifier="choice"), [tmp_path]
        ).to_pylist()[0]
        lines = row["problem"].split("\n")[2:6]
        assert sorted(line[3:] for line in lines) == sorted(TEXTS)
        assert [line[:3] for line in lines] == ["A) ", "B) ", "C) ", "D) "]
        assert lines["ABCD".index(row["gold"])][3:] == right


def test_labels_that_a_file_has_shuffled_name_its_options(tmp_path):
    write_lines(tmp_path / "mine.jsonl", {"q": "Which?", "o": ["B) grass", "A) blood"], "a": "A"})
    columns = {"problem": "q", "options": "o", "gold": "a"}
    row = read_benchmark(entry(columns=columns, verifier="choice"), [tmp_path]).to_pylist()[0]
    assert row["problem"].endswith("A) grass\nB) blood\n") and row["gold"] == "B"


@pytest.mark.parametrize(
    "options",
    [
        *(["1.5", "2.5"], ["A) red", "green"], ["A) red", "A) green"], ["I: 3", "V: 5"]),
        *(
            ["1:3", "2:5"],
            ["2:1", "1:2", "3:4"],
            ["1：3", "2：5"],
            ["A.", "B."],
            ["(1)", "(2)"],
        ),
    ],
)
def test_texts_that_only_look_labelled_are_left_alone(tmp_path, options):
    write_lines(tmp_path / "mine.jsonl", {"q": "Which?", "o": options, "a": "B"})
    columns = {"problem": "q", "options": "o", "gold": "a"}
    row = read_benchmark(entry(columns=columns, verifier="choice"), [tmp_path]).to_pylist()[0]
    assert row["problem"].split("\n")[2:4] == [f"A) {options[0]}", f"B) {options[1]}"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("red or green", "expected a list of 2 to 10 options; they may be a list of texts, a mapping"),
        ({"A": "red"}, "expected a list of 2 to 10 options"),
        ([str(n) for n in range(11)], "expected a list of 2 to 10 options"),
        (["red", ""], "option 2 is '', which is no text"),
        ([{"text": "red"}, {"text": "green"}], "option 1 is {'text': 'red'}, which is no text"),
        ([True, False], "option 1 is True, which is no text"),
    ],
)
def test_options_of_no_form_are_refused(tmp_path, options, message):
    write_lines(tmp_path / "mine.jsonl", {"q": "Which?", "o": options, "a": "A"})
    columns = {"problem": "q", "options": "o", "gold": "a"}
    with pytest.raises(InputError) as caught:
        read_benchmark(entry(columns=columns, verifier="choice"), [tmp_path])
    assert "mine.jsonl, row 1: column o: " in str(caught.value) and message in str(caught.value)
