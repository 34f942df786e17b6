"""Small files in the published formats: the benchmarks of the paper, and traces with the markers that teachers write.

The texts are generated from a seed; the columns, markers and counts are those of the published files.
"""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SIZES = {"aime": 30, "aime25": 30, "amc": 83, "math": 500, "minerva": 272, "olympiad_bench": 675}
COPIES = {"aime": 32, "aime25": 32, "amc": 32}  # the file holds every problem of these once for each of 32 samples
BOILERPLATE = (
    "Answer the following multiple choice question. The last line of your response should be of the following format: "
    "'ANSWER: $LETTER' (without quotes) where LETTER is one of ABCD. Think step by step before answering."
)
DIGIT_LABELS = 22  # rows of ARC whose options are labelled 1 to 4
MMLU_PRO_ROWS = 400
SYSTEM = "Think between <think> and </think> before you answer."
CONSONANTS, VOWELS = "bcdfghjklmnprstvz", "aeiou"


def word(source: random.Random) -> str:
    """A word that no other text has by chance."""
    return "".join(source.choice(CONSONANTS) + source.choice(VOWELS) for _ in range(source.randint(2, 4)))


def problem(source: random.Random) -> tuple[str, str]:
    """A problem in words that shares no run of words with another one, and its answer."""
    first, second = source.randint(2, 99), source.randint(2, 99)
    names = [word(source) for _ in range(14)]
    start, middle, end = " ".join(names[:7]), " ".join(names[7:10]), " ".join(names[10:])
    return f"{start} counts ${first}$ {middle} and ${second}$ {end} altogether.", str(first + second)


def training_row(source: str, text: str, gold: str, number: int) -> dict[str, Any]:
    """A row of the schema that verl trains and validates on."""
    return {
        "data_source": source,
        "prompt": [{"content": SYSTEM, "role": "system"}, {"content": text, "role": "user"}],
        "ability": "math",
        "reward_model": {"ground_truth": gold, "style": "rule"},
        "extra_info": {"index": number, "split": "default"},
    }


def options(source: random.Random, labels: str) -> str:
    return "\n".join(f"{label}) {word(source)} {word(source)}" for label in labels)


def write_benchmarks(folder: Path, seed: int = 0) -> Path:
    """The validation files of the paper's repository, and the collections that hold the same problems."""
    source = random.Random(seed)
    problems = {name: [problem(source) for _ in range(size)] for name, size in SIZES.items()}
    rows = [
        training_row(name, text, gold, number)
        for name, entries in problems.items()
        for number, (text, gold) in enumerate(entries)
        for _ in range(COPIES.get(name, 1))
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "valid.all.parquet")

    arc = []
    for number in range(1172):
        labels = "1234" if number < DIGIT_LABELS else "ABCD"
        text = f"{problem(source)[0]}\n{options(source, labels)}"
        arc.append(training_row("arc_c", text, source.choice(labels), number))
    pq.write_table(pa.Table.from_pylist(arc), folder / "valid.arc_c.parquet")

    gpqa = []
    for number in range(198):
        text = f"{BOILERPLATE}\n\n{problem(source)[0]}\n\n{options(source, 'ABCD')}"
        gpqa.append(training_row("gpqa", text, source.choice("ABCD"), number))
    pq.write_table(pa.Table.from_pylist(gpqa), folder / "valid.gpqa.parquet")

    collections = folder / "collections"
    collections.mkdir()
    for name, file in {"aime": "aime24", "amc": "amc_2022_2023"}.items():
        # Collections spell numbers in other ways: 073 and 73.0 are 73.
        spelled = [(text, f"{int(gold):03}" if name == "aime" else f"{gold}.0") for text, gold in problems[name]]
        lines = [{"problem": text, "answer": gold, "difficulty": "easy"} for text, gold in spelled]
        write_lines(collections / f"{file}.jsonl", lines)
    lines = [
        {"unique_id": str(number), "problem": text, "answer": gold, "difficulty": "1"}
        for number, (text, gold) in enumerate(problems["math"])
    ]
    write_lines(collections / "math500.jsonl", lines)

    lines = []
    for number in range(MMLU_PRO_ROWS):
        count = source.randint(3, 10)
        lines.append(
            {
                "question_id": number,
                "question": problem(source)[0],
                "options": [f"{word(source)} {word(source)}" for _ in range(count)],
                "answer": "ABCDEFGHIJ"[source.randrange(count)],
                "category": source.choice(["law", "physics"]),
            }
        )
    write_lines(folder / "mmlu_pro_test.jsonl", lines)
    return folder


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def trace(text: str, gold: str, thoughts: str, markers: str) -> dict[str, Any]:
    """A row of a teacher's file; ``markers`` are the ones around its thoughts."""
    answer = f"The answer is \\boxed{{{gold}}}."
    response = {
        "think": f"<think>\n{thoughts}\n</think>\n\n{answer}",
        "opened_by_the_prompt": f"{thoughts}\n</think>\n\n{answer}",
        "im_start": f"<|im_start|>think\n{thoughts}\n<|im_start|>answer\n{answer}",
        "begin_of_thought": f"<|begin_of_thought|>\n\n{thoughts}\n\n<|end_of_thought|>\n\n"
        f"<|begin_of_solution|>\n\n{answer}\n\n<|end_of_solution|>",
        "plain": f"{thoughts}\n{answer}",
    }[markers]
    return {"problem": text, "gold_answer": gold, "response": response, "upstream_correct": True}


def write_traces(path: Path, count: int, *, markers: str = "im_start", wrong: int = 0, seed: int = 1) -> Path:
    """``count`` traces on problems of their own, of which the first ``wrong`` end with a wrong answer."""
    source = random.Random(seed)
    rows = []
    for number in range(count):
        text, gold = problem(source)
        stated = str(int(gold) + 1) if number < wrong else gold
        thoughts = f"I add the two numbers step by step.\nWait, once more: that makes {stated}."
        rows.append(trace(text, stated, thoughts, markers) | {"gold_answer": gold})
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the benchmark files in the published formats, made for this session."""
    return write_benchmarks(tmp_path_factory.mktemp("published"))
