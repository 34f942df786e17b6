"""The worker program that compares two answers with math-verify: ``python -m grading.equivalence LIMIT_SECONDS``.

math-verify can hang (``9^{9^{9^9}}``), its own time limit needs the alarm of the main thread, and a comparison that
exceeds the limit looks like a wrong answer. It therefore runs in this program, which reads one JSON request per line
from stdin and writes one JSON reply per line to stdout, with the alarm on its main thread. The caller kills what the
alarm cannot interrupt (one long C call), and the kernel's CPU limit ends it if the caller is gone. The program imports
the libraries once and compares in a fork, so that a new fork takes milliseconds; each fork first writes its process id.
Everything ends when stdin closes.
"""

import contextlib
import json
import logging
import math
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TextIO

Compare = Callable[[str, str], tuple[str, str]]  # (answer, gold) to (verdict, reason)

MEMORY_BYTES = 4 << 30
REPEAT_S = 0.25  # the alarm repeats, because libraries may swallow the first one in a bare `except:`
PARENT_CHECK_S = 10.0
KEPT_FORMS = 4096
POINTS = ((0.8137, 0.3171), (1.5923, 0.2139))  # value of the first symbol, and what each next symbol adds
CLEARLY = 1e-3  # relative difference of clearly different values


class TimeUp(BaseException):
    """Raised by the alarm; not an Exception, so that math-verify's handlers let it through."""


def compare(answer: str, gold: str) -> tuple[str, str]:
    """Verdict ("correct" | "wrong" | "gold_unparsed") and its reason for two non-empty answers."""
    from math_verify import verify

    gold_forms = _forms(gold)
    if not any(not isinstance(form, str) for form in gold_forms):
        return "gold_unparsed", "math-verify finds no expression in the gold answer"
    answer_forms = _forms(answer)
    if not answer_forms:
        return "wrong", "math-verify finds no expression in the answer"
    if _refuted(gold_forms[0], answer_forms[0]):
        return "wrong", "other values"
    equal = verify(list(gold_forms), list(answer_forms), timeout_seconds=None)
    return ("correct", "symbolically equal") if equal else ("wrong", "not equal")


def _refuted(gold: Any, answer: Any) -> bool:
    """Whether two expressions have clearly different values, which is quicker to see than that neither simplifies."""
    from sympy import Derivative, Expr, Float, Integral, Limit, MatrixExpr, Product, Sum
    from sympy.core.function import AppliedUndef

    slow = (AppliedUndef, Derivative, Integral, Limit, MatrixExpr, Product, Sum)
    if not all(isinstance(side, Expr) and not side.has(*slow) for side in (gold, answer)):
        return False
    symbols = {symbol: symbol.name for symbol in gold.free_symbols | answer.free_symbols}
    names = sorted(set(symbols.values()))
    for first, step in POINTS if symbols else POINTS[:1]:
        at = {symbol: Float(first + step * names.index(name)) for symbol, name in symbols.items()}
        try:
            one, other = (complex(side.evalf(subs=at)) for side in (gold, answer))
        except (ArithmeticError, NotImplementedError, TypeError, ValueError):
            return False  # no number: the symbolic comparison decides
        if not abs(one - other) > CLEARLY * max(abs(one), abs(other)):  # also where one is not a number
            return False
    return True


@lru_cache(maxsize=KEPT_FORMS)
def _forms(answer: str) -> tuple[Any, ...]:
    """What math-verify reads in an answer; cached, because a gold answer comes with every sample of its problem."""
    from math_verify import parse

    return tuple(parse(f"\\boxed{{{answer}}}", parsing_timeout=None))  # pyright: ignore[reportArgumentType]  # documented, not typed


def limited(answer: str, gold: str, limit_s: float, compare: Compare = compare) -> tuple[str, str]:
    """``compare`` under an alarm of ``limit_s`` seconds; also "timeout" and "error"."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_limit = math.ceil(used.ru_utime + used.ru_stime + limit_s) + 3
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, resource.RLIM_INFINITY))
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s, REPEAT_S)
        try:
            return compare(answer, gold)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeUp:
        return "timeout", f"not settled in {limit_s:g} s"
    except Exception as error:  # whatever math-verify raises on this pair is this pair's verdict
        return "error", f"{type(error).__name__}: {str(error)[:200]}"


def _raise_time_up(_signal: int, _frame: Any) -> None:
    raise TimeUp


def serve(limit_s: float, compare: Compare = compare) -> None:
    """Keep one fork answering requests with ``compare``, until stdin closes or the parent is gone."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints must not corrupt the replies
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and closes stdin
    signal.signal(signal.SIGALRM, _raise_time_up)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)
    sys.setrecursionlimit(5000)
    parent = os.getppid()
    compare("1", "\\frac{1}{2}")  # import and build the parser before the clock runs
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.RLIM_INFINITY))
    while os.getppid() == parent:
        child = os.fork()
        if not child:
            with contextlib.suppress(BrokenPipeError):  # nobody reads, as when stdin closes
                _answer(limit_s, compare, replies)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return


def _answer(limit_s: float, compare: Compare, replies: TextIO) -> None:
    parent = os.getppid()
    print(json.dumps({"ready": os.getpid()}), file=replies, flush=True)
    buffer = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], PARENT_CHECK_S)[0]:
            continue
        chunk = os.read(0, 1 << 16)
        if not chunk:
            return
        buffer += chunk
        while b"\n" in buffer:
            line, buffer = buffer.split(b"\n", 1)
            request = json.loads(line)
            verdict, reason = limited(request["answer"], request["gold"], limit_s, compare)
            print(json.dumps({"id": request["id"], "verdict": verdict, "reason": reason}), file=replies, flush=True)


if __name__ == "__main__":
    serve(float(sys.argv[1]))
