"""Write the traces of the profiles ``choice`` and ``code``: ``.venv/bin/python examples/tasks.py``.

The files ``choice.jsonl`` and ``code.jsonl`` in ``var/examples`` have a question, its answer and a response with
thoughts per line. A file of your own needs no more than that.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "var" / "examples"

# A question about a key, and the answers by key; the wrong options are answers to the other keys.
FACTS = {
    "Which unit measures {}?": {
        **{"force": "newton", "energy": "joule", "power": "watt", "pressure": "pascal", "voltage": "volt"},
        **{"resistance": "ohm", "frequency": "hertz", "electric charge": "coulomb", "mass": "kilogram"},
        **{"electric current": "ampere", "temperature": "kelvin", "capacitance": "farad", "light intensity": "candela"},
    },
    "Which symbol stands for {}?": {
        **{"iron": "Fe", "gold": "Au", "silver": "Ag", "lead": "Pb", "copper": "Cu", "tin": "Sn", "sodium": "Na"},
        **{"potassium": "K", "mercury": "Hg", "carbon": "C", "oxygen": "O", "helium": "He", "tungsten": "W"},
    },
    "What is a young {} called?": {
        **{"horse": "foal", "cow": "calf", "sheep": "lamb", "goat": "kid", "deer": "fawn", "frog": "tadpole"},
        **{"goose": "gosling", "swan": "cygnet", "kangaroo": "joey", "bear": "cub", "cat": "kitten", "owl": "owlet"},
    },
    "Which organ is most concerned with {}?": {
        **{"pumping blood": "heart", "breathing": "lungs", "thinking": "brain", "filtering blood": "kidneys"},
        **{"making bile": "liver", "hearing": "ears", "seeing": "eyes", "making insulin": "pancreas"},
    },
}

# A task, how it is solved, the program, and what it prints for each input.
PROGRAMS = [
    ("Print twice the number.", "Multiply by 2.", "print(2 * int(input()))", {"4": "8", "-3": "-6"}),
    ("Print the square of the number.", "Multiply it by itself.", "print(int(input()) ** 2)", {"5": "25", "-2": "4"}),
    ("Print the text backwards.", "Slice with step -1.", "print(input()[::-1])", {"abc": "cba", "no on": "no on"}),
    ("Print the length of the text.", "len counts.", "print(len(input()))", {"four": "4", "a b": "3"}),
    ("Print the text in capitals.", "upper does that.", "print(input().upper())", {"Ab c": "AB C", "x": "X"}),
    ("Print how many words the text has.", "split makes words.", "print(len(input().split()))", {"a b": "2", "x": "1"}),
    ("Print the first word.", "Split, take the first.", "print(input().split()[0])", {"one two": "one", "a": "a"}),
    ("Print the last word.", "Split, take the last.", "print(input().split()[-1])", {"one two": "two", "a": "a"}),
    ("Print the sum of the numbers.", "sum adds.", "print(sum(map(int, input().split())))", {"1 2 3": "6", "-1": "-1"}),
    ("Print the largest number.", "max.", "print(max(map(int, input().split())))", {"3 9 2": "9", "-5 -7": "-5"}),
    ("Print the smallest number.", "min.", "print(min(map(int, input().split())))", {"3 9 2": "2", "-5 -7": "-7"}),
    ("Print the numbers in order.", "sorted.", "print(*sorted(map(int, input().split())))", {"3 1 2": "1 2 3"}),
    ("Print even or odd.", "Use %.", "print('odd' if int(input()) % 2 else 'even')", {"3": "odd", "10": "even"}),
    ("Count from 1 to n, a line each.", "Loop.", "for i in range(int(input())):\n    print(i + 1)", {"3": "1\n2\n3"}),
    ("Print the remainder by 7.", "Use %.", "print(int(input()) % 7)", {"15": "1", "-1": "6"}),
    ("Print how many vowels there are.", "Test each.", "print(sum(c in 'aeiou' for c in input()))", {"ouch": "2"}),
    ("Print the words joined by dashes.", "split, join.", "print('-'.join(input().split()))", {"a b c": "a-b-c"}),
    ("Print yes for a palindrome.", "Compare.", "s = input()\nprint('yes' if s == s[::-1] else '')", {"abba": "yes"}),
    ("Print the number in binary.", "bin, cut the prefix.", "print(bin(int(input()))[2:])", {"5": "101", "8": "1000"}),
    ("Print n factorial.", "math knows.", "import math\n\nprint(math.factorial(int(input())))", {"5": "120", "0": "1"}),
]


def choices() -> Iterator[dict[str, str]]:
    """Questions with four options in random order, and the letter of the right one."""
    rng = random.Random(0)
    for question, answers in FACTS.items():
        for key, right in answers.items():
            options = [right, *rng.sample([answer for answer in answers.values() if answer != right], 3)]
            rng.shuffle(options)
            letter = "ABCD"[options.index(right)]
            listed = "\n".join(f"{label}) {option}" for label, option in zip("ABCD", options, strict=True))
            response = f"<think>\n{key}: {right}\n{right}: {letter}\n</think>\n\n\\boxed{{{letter}}}"
            yield {"question": f"{question.format(key)}\n{listed}", "answer": letter, "response": response}


def programs() -> Iterator[dict[str, str]]:
    """Tasks with a program, and the tests of it as their answer."""
    for task, idea, program, tests in PROGRAMS:
        yield {
            "question": task,
            "answer": json.dumps({"inputs": [*tests], "outputs": [*tests.values()]}),
            "response": f"<think>\n{idea}\n</think>\n\n```python\n{program}\n```",
        }


def main() -> None:
    """Write both files."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name, rows in (("choice", choices()), ("code", programs())):
        (OUT / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
