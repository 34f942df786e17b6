r"""Write function names of other conventions and bare names as commands: ``arctg``, ``\lg``, ``sqrt(2)``."""

from collections.abc import Sequence
from string import ascii_letters

from grading.expressions.answer_tokens import closing
from grading.vocabulary import FUNCTIONS, SCHOOLS

_BARE_NAMES = FUNCTIONS | SCHOOLS.keys() | {"pi", "sqrt", "lg", "alpha", "beta", "theta", "lambda"}


def with_functions(parts: Sequence[str]) -> list[str]:
    r"""Return the tokens with the functions that `grading.expressions.reading.terms` knows.

    >>> with_functions(["2", "s", "i", "n", "4"]), with_functions(["\\lg", "x"])
    (['2', '\\sin', '4'], ['\\log', '_', '{', '10', '}', 'x'])
    """
    result: list[str] = []
    position = 0
    while position < len(parts):
        start = position
        while position < len(parts) and len(parts[position]) == 1 and parts[position] in ascii_letters:
            position += 1
        letters = list(parts[start : max(position, start + 1)])
        run = "".join(letters)
        name = run if run in _BARE_NAMES else run[1:] if run.startswith("\\") else ""
        position = start + len(letters)
        if name == "lg":
            result += ["\\log", "_", "{", "10", "}"]
        elif name in SCHOOLS:
            result.append(f"\\{SCHOOLS[name]}")
        elif run == "sqrt" and parts[position : position + 1] == ["("]:
            close = closing(parts, position)
            result += ["\\sqrt", "{", *with_functions(parts[position + 1 : close]), "}"]
            position = close + 1
        elif run in _BARE_NAMES:
            result.append(f"\\{run}")
        else:
            result += letters
    return result
