"""Near duplicates: what is found among labelled pairs, and that a large group loses none that all pairs would show."""

from collections.abc import Callable
from random import Random

import pytest
from rapidfuzz import fuzz

from targets.select.dedupe import describe
from targets.select.near_duplicates import COMPARED_DIRECTLY, near_duplicates
from targets.settings import build_config
from targets.trace import Trace
from tests.deduping import find_duplicates

RANDOM = Random(0)
WORDS = ["".join(RANDOM.choices("aabcdeefghiijklmnoopqrstuvwxyz", k=RANDOM.randint(4, 9))) for _ in range(100)]
NAMES = ("Anna", "Boris", "Carla", "Dmitri", "Elena", "Felix")
PAIRS = 40  # of each kind

Problem = tuple[str, str]  # and its gold answer


def story(random: Random) -> str:
    """A question of three sentences, of which no two are alike."""
    first, second, third = (" ".join(random.sample(WORDS, 7)) for _ in range(3))
    name = random.choice(NAMES)
    return (
        f"{name} carries the {first}, and the number $n$ of them is even. Then {name} leaves the {second} behind. "
        f"Is it the largest {third} that {name} can carry?"
    )


def with_number(problem: str, number: str) -> str:
    return f"{problem} There are {number} of them."


# Two forms of a problem, and the share of the pairs that are found. No number, as the gold answer of the other: "Yes".
SAME: dict[str, tuple[Callable[[str], tuple[Problem, Problem]], float]] = {
    "delimiters": (lambda p: ((p, "Yes"), (p.replace("$n$", "\\( n \\)"), "Yes")), 1),
    "case": (lambda p: ((p, "Yes"), (p.upper(), "Yes")), 1),
    "a misspelled word": (lambda p: ((p, "Yes"), (p.replace("carries", "caries", 1), "Yes")), 1),
    "other typography of the gold": (lambda p: ((p + ".", "\\frac{1}{2}"), (p, "\\dfrac{1}{2}")), 1),
    "a long instruction": (lambda p: ((p, "Yes"), (f"Read this and answer in a word. {p} Box it.", "Yes")), 0),
    "another form of the gold": (lambda p: ((p + ".", "0.5"), (p, "\\frac12")), 0),
}
OTHER: dict[str, tuple[Callable[[str], tuple[Problem, Problem]], float]] = {
    "another number": (lambda p: ((with_number(p, "8"), "Yes"), (with_number(p, "9"), "Yes")), 0),
    "another operator": (lambda p: ((f"{p} $n + k$", "Yes"), (f"{p} $n - k$", "Yes")), 0),
    "another gold": (lambda p: ((p + ".", "Yes"), (p.upper(), "No")), 0),
    "smallest for largest": (lambda p: ((p, "Yes"), (p.replace("largest", "smallest"), "Yes")), 1),
}


def merged(problems: list[Problem]) -> dict[int, int]:
    """The position of each problem that goes, and of the one that it repeats."""
    traces = []
    for position, (problem, gold) in enumerate(problems):
        traces.append(Trace(str(position), "source", position, problem=problem, gold=gold, target=str(position)))
        describe(traces[-1])
    rejections = find_duplicates(traces, build_config({}))
    return {position: int(rejection.duplicate_of or "") for position, rejection in rejections.items()}


@pytest.mark.parametrize("kind", [*SAME, *OTHER])
def test_labelled_pairs(kind: str) -> None:
    """All of them in one run, so that the problems of one gold answer are too many to compare all pairs."""
    two_forms, share = (SAME | OTHER)[kind]
    random = Random(kind)
    pairs = [two_forms(story(random)) for _ in range(PAIRS)]
    repeats = merged([problem for pair in zip(*pairs, strict=True) for problem in pair])
    assert 2 * PAIRS > COMPARED_DIRECTLY
    assert sum(repeats.get(PAIRS + place) == place for place in range(PAIRS)) / PAIRS == share
    assert len(repeats) == share * PAIRS


def edited(random: Random, problem: str) -> str:
    """``problem`` with one to five characters or words changed, at random places."""
    letters = list(problem)
    for _ in range(random.randint(1, 5)):
        place = random.randrange(len(letters))
        letters[place] = random.choice(["", "x", letters[place] + "y", f" {random.choice(WORDS)} "])
    return "".join(letters)


def all_pairs(texts: list[str], threshold: float) -> list[tuple[int, int, float]]:
    """What `near_duplicates` is expected to find: each text compared with all before it that repeat none."""
    distinct: list[int] = []
    near = []
    for position, text in enumerate(texts):
        alike = ((other, fuzz.ratio(text, texts[other], score_cutoff=threshold)) for other in distinct)
        if repeats := next(((other, similarity) for other, similarity in alike if similarity), None):
            near.append((position, *repeats))
        else:
            distinct.append(position)
    return near


@pytest.mark.parametrize("threshold", [99, 95, 90, 85, 80, 60])
def test_a_large_group_loses_no_pair(threshold: float) -> None:
    random = Random(threshold)
    texts = [story(random) for _ in range(150)]
    texts += [edited(random, random.choice(texts)) for _ in range(150)]
    texts += ["", "x", "xy"]
    random.shuffle(texts)
    expected = all_pairs(texts, threshold)
    assert 20 < len(expected) < len(texts)
    assert list(near_duplicates(texts, threshold)) == expected


def test_texts_that_are_compared_do_not_grow_with_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stories share a third of their characters, as questions of one kind do."""
    compared = 0
    ratio = fuzz.ratio

    def counting(*texts: str, **options: float) -> float:
        nonlocal compared
        compared += 1
        return ratio(*texts, **options)

    monkeypatch.setattr(fuzz, "ratio", counting)
    random = Random(0)
    texts = [story(random) for _ in range(1000)]
    assert list(near_duplicates(texts, 95)) == []
    assert compared < len(texts)
