"""The worker program that compares two answers with math-verify: ``python -m grading.equivalence LIMIT_SECONDS``.

math-verify can hang (``9^{9^{9^9}}``), its own time limit needs the alarm of the main thread, and a comparison that
exceeds the limit looks like a wrong answer. It therefore runs in this program, which reads one JSON request per line
from stdin and writes one JSON reply per line to stdout, with the alarm on its main thread. The caller kills what the
alarm cannot interrupt (one long C call), and the kernel's CPU limit ends it if the caller is gone. The program imports
the libraries once and compares in a fork, so that a new fork takes milliseconds. Each fork first writes its process id,
and writes the id of a request before it compares. Everything ends when stdin closes.
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
from typing import Any, NamedTuple, TextIO

from core.machine.limits import address_space, limit, limit_memory
from grading.pairs import UNIT

Compare = Callable[[str, str], tuple[str, str]]  # (answer, gold) to (verdict, reason)

MEMORY_BYTES = 160 << 20  # that a comparison may take beside what the program takes
RENEWED_BYTES = 64 << 20  # by which a fork may grow before the next one takes its place
RENEW = 3  # exit status of a fork that has grown too large
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
    from sympy import Tuple

    expected, answered = _forms(gold), _forms(answer)
    if not any(not isinstance(form, str) for form in expected.plain):
        return "gold_unparsed", "math-verify finds no expression in the gold answer"
    if not answered.plain:
        return "wrong", "math-verify finds no expression in the answer"
    # A letter after a number is a unit if the other side has none, and else a variable.
    both = expected.symbols and answered.symbols
    one, other = (expected.lettered, answered.lettered) if both else (expected.plain, answered.plain)
    one, other = _without_name(one, other), _without_name(other, one)
    if _refuted(one[0], other[0]):
        return "wrong", "other values"
    # math-verify treats its two sides differently; whichever is the gold answer, the verdict is the same here.
    directions = [(one, other), (other, one)]
    if isinstance(one[0], Tuple) != isinstance(other[0], Tuple):  # it sorts a set that it compares with a gold tuple
        directions = [pair for pair in directions if isinstance(pair[0][0], Tuple)]
    equal = any(verify(list(first), list(second), timeout_seconds=None) for first, second in directions)
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


def _without_name(forms: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[Any, ...]:
    """The right side of ``b = …`` or ``f(x) = …`` where the other answer states a value alone."""
    from sympy import Eq, Expr, Symbol
    from sympy.core.function import AppliedUndef

    form = forms[0]
    if isinstance(form, Eq) and isinstance(form.lhs, Symbol | AppliedUndef) and isinstance(others[0], Expr):
        return (form.rhs,)
    return forms


class Forms(NamedTuple):
    """What math-verify reads in an answer: without letters that may be units, and with them."""

    plain: tuple[Any, ...]
    lettered: tuple[Any, ...]

    @property
    def symbols(self) -> bool:
        """Whether it holds a variable, if letters are variables."""
        return bool(getattr(self.lettered[0], "free_symbols", None)) if self.lettered else False


@lru_cache(maxsize=KEPT_FORMS)
def _forms(answer: str) -> Forms:
    """The forms of an answer; cached, because a gold answer comes with every sample of its problem."""
    from latex2sympy2_extended.latex2sympy2 import NormalizationConfig, normalize_latex
    from math_verify import parse
    from math_verify.parser import LatexExtractionConfig

    def read(text: str, *configs: Any) -> tuple[Any, ...]:
        options: dict[str, Any] = {"parsing_timeout": None, **({"extraction_config": configs} if configs else {})}
        return tuple(map(_canonical, parse(f"\\boxed{{{text}}}", **options)))

    plain = read(answer)
    readable = any(not isinstance(form, str) for form in plain)
    letters = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="last")
    bare = UNIT.sub("", answer)
    if not plain or normalize_latex(f"\\boxed{{{bare}}}", letters) == plain[-1]:
        return Forms(plain, plain)
    lettered = read(bare, LatexExtractionConfig(normalization_config=letters)) or plain
    return Forms(plain if readable else lettered, lettered)


def _canonical(form: Any) -> Any:
    """``i`` as the imaginary unit, and hyperbolic functions as exponentials, which algebra compares at once."""
    from sympy import Basic, I, MatrixBase, Product, Sum, exp
    from sympy.functions.elementary.hyperbolic import HyperbolicFunction

    if not isinstance(form, Basic | MatrixBase) or form.has(Sum, Product):  # in which i counts
        return form
    imaginary = {symbol: I for symbol in form.free_symbols if str(symbol) == "i"}
    form = form.xreplace(imaginary) if imaginary else form
    return form.rewrite(exp) if form.has(HyperbolicFunction) else form


def limited(answer: str, gold: str, limit_s: float, compare: Compare = compare) -> tuple[str, str]:
    """``compare`` under an alarm of ``limit_s`` seconds; also "timeout" and "error"."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_limit = math.ceil(used.ru_utime + used.ru_stime + limit_s) + 3
    limit(resource.RLIMIT_CPU, cpu_limit)
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
    limit(resource.RLIMIT_CORE, 0)
    logging.disable(logging.CRITICAL)
    sys.setrecursionlimit(5000)
    parent = os.getppid()
    compare("1", "\\frac{1}{2}")  # import and build the parser before the clock runs
    limit_memory(MEMORY_BYTES)
    while os.getppid() == parent:
        child = os.fork()
        if not child:
            with contextlib.suppress(BrokenPipeError):  # nobody reads, as when stdin closes
                _answer(limit_s, compare, replies)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return


def _answer(limit_s: float, compare: Compare, replies: TextIO) -> None:
    parent, most = os.getppid(), address_space() + RENEWED_BYTES
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
            print(json.dumps({"begun": request["id"]}), file=replies, flush=True)
            verdict, reason = limited(request["answer"], request["gold"], limit_s, compare)
            ends = address_space() > most
            reply = {"id": request["id"], "verdict": verdict, "reason": reason, "ends": ends}
            print(json.dumps(reply), file=replies, flush=True)
            if ends:
                os._exit(RENEW)


if __name__ == "__main__":
    serve(float(sys.argv[1]))
