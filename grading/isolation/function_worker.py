"""The worker program that calls a function of the user's.

``python -m grading.isolation.function_worker TARGET MEMORY LIMIT``:

TARGET is a JSON object with the ``path`` of the function (``file.py:function`` or ``package.module:function``) and its
further ``kwargs``, MEMORY the bytes that a call may take, and LIMIT the seconds.
It serves by `grading.worker_program`: the function is imported once and called in a fork, which ends with all that it
started when a call takes too long. What the function prints goes nowhere.
"""

import asyncio
import inspect
import json
import math
import numbers
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from core.errors import InputError, first_line
from core.plugins.user_code import ARGUMENTS, import_problem, load_function
from grading.worker_program import Reply, serve

EXPECTED = "expected a number from 0 to 1, or a mapping with one as its score"
LONGEST = 1000  # characters of an answer that a function says it found

Outcome = tuple[str, str, float, str | None]  # verdict ("scored" | "error"), reason, score, extracted answer


def call(function: Callable[..., Any], arguments: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Outcome:
    """Return what ``function`` says of one sample; whatever it raises is an error of that sample."""
    try:
        result = function(**arguments, **kwargs)
        return read_result(asyncio.run(result) if inspect.iscoroutine(result) else result)
    except Exception as error:
        return _error(f"raised {type(error).__name__}: {first_line(error)}")
    except SystemExit as error:
        return _error(f"called sys.exit({error.code!r:.80})")


def read_result(result: Any) -> Outcome:
    """Read what a function returned: a score, or a mapping with ``score`` and maybe ``reason`` and ``pred``.

    >>> read_result(True), read_result({"score": 0.5, "reason": "half of it", "pred": "7"})
    (('scored', '', 1.0, None), ('scored', 'half of it', 0.5, '7'))
    >>> read_result(7)
    ('error', 'returned 7: expected a number from 0 to 1, or a mapping with one as its score', 0.0, None)
    """
    more: Mapping[str, Any] = result if isinstance(result, Mapping) else {}
    if more and "score" not in more:
        return _error(f"returned a mapping with {', '.join(map(str, more))[:80]} and no score")
    score = more["score"] if more else result
    item = getattr(score, "item", None)  # numbers of numpy and torch have it
    if not isinstance(score, numbers.Real) and callable(item):
        score = item()
    if not isinstance(score, numbers.Real):
        return _error(f"returned {score!r:.80}: {EXPECTED}")
    number = float(score)
    if not (math.isfinite(number) and 0 <= number <= 1):
        return _error(f"returned {score!r:.80}: {EXPECTED}")
    pred = more.get("pred")
    return "scored", _line(more.get("reason") or ""), number, None if pred is None else str(pred)[:LONGEST]


def _error(reason: str) -> Outcome:
    return "error", _line(reason), 0.0, None


def _line(text: Any) -> str:
    return first_line(ValueError(str(text)[:LONGEST])) if text else ""


def load(path: str, kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function that ``path`` names, which takes `ARGUMENTS` and ``kwargs`` by name.

    Raises:
        InputError: it cannot be imported, or takes other arguments.
    """
    module, _, name = path.rpartition(":")
    try:
        function = load_function(path)
    except InputError as error:
        raise InputError(f"verifier {path}: {error}") from None
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        if isinstance(error, AttributeError) and error.name == name:
            raise InputError(f"verifier {path}: {module} has no function {name}") from None
        raise InputError(f"verifier {path}: {import_problem(path, error)}") from None
    try:
        inspect.signature(function).bind(**dict.fromkeys(ARGUMENTS), **kwargs)
    except (TypeError, ValueError) as error:
        names = ", ".join((*ARGUMENTS, *kwargs))
        raise InputError(f"verifier {path}: {name} does not take {names} by name ({first_line(error)})") from None
    return function


def main(target: str, memory: int, limit_s: float) -> None:
    """Import the function, or say why it cannot be, and serve calls."""
    path, kwargs = (json.loads(target)[key] for key in ("path", "kwargs"))

    def prepare() -> Reply:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        function = load(path, kwargs)
        return lambda arguments: call(function, arguments, kwargs)

    serve(limit_s, prepare, memory=memory, renewed=memory // 2)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
