"""Check a recorded episode: its calls can be read and are answered, and the tools give the recorded observations."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from core.model.calls import Call, Format, Schema, first_argument, name_of, read_calls
from core.model.episodes import TOOL
from core.model.prompts import Messages
from core.text.markdown import shorten
from core.text.patterns import compile_quick_pattern
from grading.isolation.sandbox import SandboxFailed
from grading.tools.settings import ToolSettings
from grading.tools.tool import Context, Exchange
from grading.tools.toolbox import Toolbox

NUMBER = compile_quick_pattern(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
CLOSE = 1e-6  # relative difference of equal numbers
QUOTED = 80  # characters of an observation in a detail


class Problem(NamedTuple):
    """Why a recorded episode cannot be a target."""

    reason: str
    detail: str


def turns_of(target: Messages) -> Iterator[tuple[str, list[str]]]:
    """Yield each turn of an episode, with the observations behind it."""
    starts = [number for number, message in enumerate(target) if message["role"] != TOOL]
    for start, end in pairwise([*starts, len(target)]):
        yield target[start]["content"], [message["content"] for message in target[start + 1 : end]]


def call_problem(target: Messages, form: Format, schemas: Sequence[Schema], written: Format) -> Problem | None:
    """Return which call of an episode in ``form`` has no known form or tool, or cannot be ``written``."""
    arguments = {name_of(schema): first_argument(schema) for schema in schemas}
    for number, (text, _) in enumerate(turns_of(target), start=1):
        for call in read_calls(text, form, schemas):
            if call.problem:
                return Problem("bad_call", f"turn {number}: {call.problem}")
            if call.name not in arguments:
                detail = f"turn {number} calls {call.name!r:.40}; tools.use has {', '.join(arguments)}"
                return Problem("unknown_tool", detail)
            if written == "tags" and [*call.arguments] != [arguments[call.name]]:
                stated = ", ".join(call.arguments) or "none"
                detail = f"turn {number}: the format tags writes the argument {arguments[call.name]}, and the call has"
                return Problem("bad_call", f"{detail} {stated:.80}")
    return None


def problem_of(target: Messages, form: Format, schemas: Sequence[Schema], settings: ToolSettings) -> Problem | None:
    """Return what is wrong with the calls of an episode, without making them."""
    if problem := call_problem(target, form, schemas, form):
        return problem
    turns = list(turns_of(target))
    for number, (text, observations) in enumerate(turns, start=1):
        calls = read_calls(text, form, schemas)
        if len(calls) != len(observations):
            return Problem("unanswered_call", f"turn {number}: {len(calls)} calls, {len(observations)} observations")
    if turns[-1][1] or len(turns) > settings.turns:
        return Problem("no_final_answer", f"no answer within tools.turns: {settings.turns} turns")
    return None


def differs(
    target: Messages, form: Format, schemas: Sequence[Schema], toolbox: Toolbox, context: Context
) -> Problem | None:
    """Return which recorded observation of an episode is not the tool's."""
    history: list[Exchange] = []
    number = 0
    for text, observations in turns_of(target):
        calls: list[Call] = read_calls(text, form, schemas)
        try:
            made = toolbox.run(calls, history, context)
        except SandboxFailed as error:
            return Problem("tool_failed", f"call {number + 1}: {error}")
        for recorded, exchange in zip(observations, made, strict=True):
            number += 1
            if not same(recorded, exchange.observation, toolbox.settings):
                detail = f"call {number}: {recorded[:QUOTED]!r}, the tool says {exchange.observation[:QUOTED]!r}"
                return Problem("observation_differs", detail)
        history += made
    return None


def same(recorded: str, observed: str, settings: ToolSettings) -> bool:
    """Return whether two observations are equal, blanks aside; as ``numbers``, with close ones in their places."""
    first, second = (
        " ".join(shorten(text.strip(), settings.observation_chars).split()) for text in (recorded, observed)
    )
    if first == second or settings.compare == "text":
        return first == second
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (first, second)]
    return NUMBER.sub("0", first) == NUMBER.sub("0", second) and all(
        math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE) for one, other in zip(*numbers, strict=True)
    )
