"""What every worker program does: it answers requests within limits. `grading.pool` has the other side of its protocol.

sympy can hang (``9^{9^{9^9}}``), and a comparison that does not end is no wrong answer. So it runs in a program
that reads one JSON request per line from stdin and writes one JSON reply per line to stdout, with the alarm on its
main thread. The caller kills what the alarm cannot interrupt (one long C call), and the kernel's CPU limit ends it if
the caller is gone. The program imports the libraries once and compares in a fork, so that a new fork takes
milliseconds. Each fork first writes its process id, and writes the id of a request before it compares. Everything ends
when stdin closes.
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
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from core.machine.limits import address_space, limit, limit_memory
from core.machine.processes import adopt_orphans, stop_descendants

Reply = Callable[..., tuple[Any, ...]]  # computes a reply from the arguments of a request

MEMORY_BYTES = 160 << 20  # memory that a comparison may take beyond that of the program
RENEWED_BYTES = 64 << 20  # growth of a fork after which the next one takes its place
RENEW, ENDED = 3, 4  # exit status of a fork that has grown too large, and of one whose stdin is closed
REPEAT_S = 0.25  # the alarm repeats, because libraries may swallow the first one in a bare `except:`
PARENT_CHECK_S = 10.0


class TimeUp(BaseException):
    """Raised by the alarm; not an Exception, so that math-verify's handlers let it through."""


def limited(limit_s: float, reply: Reply, *arguments: Any) -> tuple[Any, ...]:
    """Run ``reply`` under an alarm of ``limit_s`` seconds; the verdict may also be "timeout" or "error"."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_limit = math.ceil(used.ru_utime + used.ru_stime + limit_s * (os.cpu_count() or 1)) + 3
    limit(resource.RLIMIT_CPU, cpu_limit)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s, REPEAT_S)
        try:
            return reply(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeUp:
        return "timeout", f"not settled in {limit_s:g} s"
    except Exception as error:  # whatever sympy raises on this pair is this pair's verdict
        return "error", f"{type(error).__name__}: {str(error)[:200]}"


def _raise_time_up(_signal: int, _frame: Any) -> None:
    raise TimeUp


def serve(
    limit_s: float,
    reply: Reply,
    *,
    first: Sequence[Any] | None = ("x+1", "\\frac{1}{2}"),
    memory: int = MEMORY_BYTES,
    renewed: int = RENEWED_BYTES,
) -> None:
    """Keep one fork answering requests with ``reply``, until stdin closes or the parent is gone.

    Args:
        first: arguments of a first reply, which imports libraries and builds parsers before the clock runs.
        memory: bytes of address space that a fork may take beside what this process takes.
        renewed: bytes by which a fork may grow before the next one takes its place.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints must not corrupt the replies
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and closes stdin
    signal.signal(signal.SIGALRM, _raise_time_up)
    limit(resource.RLIMIT_CORE, 0)
    logging.disable(logging.CRITICAL)
    sys.setrecursionlimit(5000)
    parent = os.getppid()
    if first is not None:
        reply(*first)
    limit_memory(memory)
    adopt_orphans()
    while os.getppid() == parent:
        child = os.fork()
        if not child:
            with contextlib.suppress(BrokenPipeError):  # nobody reads, as when stdin closes
                _answer(limit_s, reply, replies, renewed)
            os._exit(ENDED)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == ENDED
        _end_children()
        if ended:
            return


def _answer(limit_s: float, reply: Reply, replies: TextIO, renewed: int) -> None:
    adopt_orphans()
    here, parent, most = os.getpid(), os.getppid(), address_space() + renewed
    print(json.dumps({"ready": here}), file=replies, flush=True)
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
            values = limited(limit_s, reply, *request["arguments"])
            if os.getpid() != here:
                os._exit(0)  # what it called forked, and this is the copy
            _end_children()
            ends = address_space() > most
            print(json.dumps({"id": request["id"], "reply": values, "ends": ends}), file=replies, flush=True)
            if ends:
                os._exit(RENEW)


def _end_children() -> None:
    """End what a request left running; orphans among it are children of this process."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
        stop_descendants(0)
