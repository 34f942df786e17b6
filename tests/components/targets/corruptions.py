"""Three sources of generated traces, honest versions of them, and corruptions of the second one."""

import gzip
import html
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Row = dict[str, Any]
Source = dict[str, Any]  # a block of the settings
Corruption = Callable[[list[Row]], list[Row]]

ROWS = {"a": 300, "b": 600, "c": 100}
WRONG = 0.1
NAMES = ("Anna", "Tomás", "Zoë", "Jörg", "Boris", "Carla", "Dmitri", "Elena", "Felix", "Greta", "Hugo")
THINGS = ("apples", "bricks", "coins", "drums", "eggs", "flags", "grapes", "hammers", "jars", "kites")
PLACES = ("harbour", "market", "station", "village", "library", "museum", "garden", "theatre", "factory", "bakery")
REMARKS = (
    "Let me check this once more",
    "I think that is right so far",
    "Another way is to start from the end",
    "Wait, the order does not matter here",
    "So the amount stays below the limit",
    "That looks plausible & simple < the other way",
)


def trace(random: Random, number: int) -> Row:
    """A word problem with LaTeX, thoughts of 300 to 1,500 characters, and a gold answer of another spelling."""
    name, things, place = random.choice(NAMES), random.choice(THINGS), random.choice(PLACES)
    many, share, times = random.randint(20, 999), random.randint(3, 19), random.randint(11, 99)
    problem = (
        f"{name} carries ${many}$ {things} from the {place} number {number} and gives $\\frac{{1}}{{{share}}}$ of them "
        f"away on each of ${times}$ days. How many {things} are given away? Write a fraction $\\frac{{p}}{{q}}$."
    )
    lines = [f"{name} has {many} {things} from the {place}.", f"One of {share} parts of {many} is asked."]
    for step in range(random.randint(3, 18)):
        lines.append(f"{step}: {random.choice(REMARKS)}, with {random.randint(1, 9999)} and {random.choice(PLACES)}.")
    right = many * times + (random.random() < WRONG)
    lines.append(f"So it is {right} divided by {share}.")
    answer = random.choice(("{}/{}", "\\frac{{{}}}{{{}}}")).format(right, share)
    response = "<think>\n" + "\n".join(lines) + f"\n</think>\n\nThe answer is \\boxed{{{answer}}}."
    return {"problem": problem, "answer": f"\\frac{{{many * times}}}{{{share}}}", "response": response}


def geometry(random: Random) -> Row:
    """A short problem about an area, whose unit the gold answer spells in another way than the thoughts."""
    width, height = random.randint(11, 99), random.randint(11, 99)
    area = f"{width * height} cm"
    thoughts = f"The sides are perpendicular, so I multiply: {width} × {height} = {area}²."
    return {
        "problem": f"Find the area of a rectangle with sides ${width}$ cm and ${height}$ cm.",
        "answer": f"{area}^2",
        "response": f"<think>\n{thoughts}\n</think>\n\nThe area is \\boxed{{{area}^2}}.",
    }


def traces(name: str, seed: int, *, rows: float = 1) -> list[Row]:
    """The traces of source ``name``; ``rows``: how many times as many as usual."""
    random = Random(f"{name} {seed}")
    return [geometry(random) if name == "c" else trace(random, number) for number in range(int(rows * ROWS[name]))]


def write(folder: Path, files: dict[str, list[Row]], *, suffix: str = "", **of_b: Any) -> list[Source]:
    """Write the files below ``folder``, and return the settings of their sources.

    ``files``: the rows of each file, called after its source and perhaps more. A source with one file is read by the
    path of the file, and one with several by that of their folder.
    """
    sources: dict[str, list[Path]] = {}
    for name, rows in files.items():
        path = folder / name[0] / f"{name}.jsonl{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = ("\n".join(map(json.dumps, rows)) + "\n").encode()
        path.write_bytes(gzip.compress(data) if suffix == ".gz" else data)
        sources.setdefault(name[0], []).append(path)
    settings = {
        "a": {"license": "MIT", "teacher": "R1"},
        "b": {"license": "Apache-2.0", "teacher": "QwQ", **of_b},
        "c": {},
    }
    return [
        {"path": str(paths[0] if len(paths) == 1 else paths[0].parent), **settings[name]}
        for name, paths in sorted(sources.items())
    ]


def of_answers(change: Callable[[list[str]], list[str]]) -> Corruption:
    return lambda rows: [
        {**row, "answer": answer} for row, answer in zip(rows, change([r["answer"] for r in rows]), strict=True)
    ]


def of_responses(change: Callable[[str], str]) -> Corruption:
    return lambda rows: [{**row, "response": change(row["response"])} for row in rows]


def of_problems(change: Callable[[str], str]) -> Corruption:
    return lambda rows: [{**row, "problem": change(row["problem"])} for row in rows]


def _parts(response: str) -> tuple[str, str]:
    thoughts, answer = response.split("\n</think>")
    return thoughts.removeprefix("<think>\n"), answer


def _thoughts_cut(response: str) -> str:
    thoughts, answer = _parts(response)
    return f"<think>\n{thoughts[:300]}\n</think>{answer}"


def _thoughts_of_others(rows: list[Row]) -> list[Row]:
    others = [_parts(row["response"])[0] for row in [*rows[7:], *rows[:7]]]
    return [
        {**row, "response": f"<think>\n{thoughts}\n</think>{_parts(row['response'])[1]}"}
        for row, thoughts in zip(rows, others, strict=True)
    ]


def _poisoned(rows: list[Row]) -> list[Row]:
    """Every twentieth trace with an equation that does not hold, right in its form and its answer."""
    wrong = ("47 × 66 = 3112", "$1204 + 388 = 1582$", "\\(12 \\cdot 12 = 154\\)", "903 - 74 = 839", "144/12 = 14")
    return [
        {**row, "response": row["response"].replace("\n</think>", f"\nNote that {wrong[place // 20 % 5]}.\n</think>")}
        if place % 20 == 0
        else row
        for place, row in enumerate(rows)
    ]


def _translated(thoughts: str) -> str:
    german = {
        "from the": "von der",
        "One of": "Eine von",
        "is asked": "ist gefragt und wir suchen",
        "So it is": "Also ist es",
    }
    for remark in REMARKS:
        german[remark] = "Die Summe ist nicht zu groß und das passt mit der Aufgabe"
    for english, text in german.items():
        thoughts = thoughts.replace(english, text)
    return thoughts


def _boxed(response: str) -> str:
    return response.split("\\boxed{")[1].removesuffix("}.")


def _of_texts(change: Callable[[str], str]) -> Corruption:
    return lambda rows: [{name: change(text) for name, text in row.items()} for row in rows]


def _without(text: str) -> str:
    return text.encode("ascii", "ignore").decode()


def _by_length(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: len(row["response"]))


def _shift_a_tenth(answers: list[str]) -> list[str]:
    return [answers[place - 1] if place % 10 == 0 else answer for place, answer in enumerate(answers)]


def _shift_a_third(answers: list[str]) -> list[str]:
    return [answers[place - 1] if place % 3 == 0 else answer for place, answer in enumerate(answers)]


# Each corruption of the rows of b, and the check that names it.
CORRUPTIONS: dict[str, tuple[Corruption, str]] = {
    "golds shifted by a row": (of_answers(lambda golds: [*golds[1:], golds[0]]), "sources_survive"),
    "golds of a tenth shifted": (of_answers(_shift_a_tenth), "wrong_share_stable"),
    "golds taken from the responses": (
        lambda rows: [{**row, "answer": _boxed(row["response"])} for row in rows],
        "golds_not_of_responses",
    ),
    "responses cut": (of_responses(lambda response: response[:900]), "rejections_stable"),
    "thoughts cut": (of_responses(_thoughts_cut), "thoughts_reach_answers"),
    "thoughts of another problem": (_thoughts_of_others, "thoughts_of_problems"),
    "a twentieth with wrong equations": (_poisoned, "equations_hold"),
    "thoughts in another language": (
        of_responses(lambda response: f"<think>\n{_translated(_parts(response)[0])}\n</think>{_parts(response)[1]}"),
        "dominant_language_stable",
    ),
    "a third of the golds shifted": (of_answers(_shift_a_third), "survival_stable"),
    "UTF-8 read as Latin-1": (_of_texts(lambda text: text.encode().decode("latin-1")), "encoding_sound"),
    "other characters lost": (_of_texts(_without), "characters_stable"),
    "half of b": (lambda rows: rows[::2], "rows_read_stable"),
    "only short": (lambda rows: _by_length(rows)[: len(rows) // 2], "source_lengths_stable"),
    "blanks of problems lost": (of_problems(lambda problem: problem.replace(" ", "")), "problem_words_stable"),
    "backslashes of problems lost": (of_problems(lambda problem: problem.replace("\\", "")), "problem_latex_stable"),
    "HTML escapes in responses": (
        of_responses(
            lambda response: "</think>".join(map(html.escape, response[8:].split("</think>"))).join(("<think>\n", ""))
        ),
        "no_html_escapes",
    ),
}
