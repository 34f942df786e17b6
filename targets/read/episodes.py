"""Read episodes, responses in which tools are called, into turns and observations.

A chat in the spelling of OpenAI (``tool_calls`` and the role ``tool``), of Anthropic (parts ``tool_use`` and
``tool_result``), of ShareGPT (``function_call`` and ``observation``) or with calls in its texts (``<tool_call>`` and
``<tool_response>``) is read, and a text with ``<code>…</code><interpreter>…``.
Calls that stand outside of a text are written into it in the format ``hermes``; the filters write them as the policy
does.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from core.model.calls import Call, write_calls
from core.model.episodes import TOOL
from core.text.patterns import compile_pattern
from targets.trace import Unusable

OBSERVATIONS = (TOOL, "observation", "ipython", "function", "tool_response", "function_response")  # roles
CALLS = ("function_call", "tool_call")  # roles
FIELDS = ("tool_calls", "function_call")  # of a message that calls a tool
CODE = compile_pattern(r"(?s)<code>(.*?)</code>\s*<interpreter>(.*?)</interpreter>")
FENCE = compile_pattern(r"(?s)^\s*```(?:python|py)?\n(.*?)\n?```\s*$")
RESPONSE = compile_pattern(r"(?s)<tool_response>\s*(.*?)\s*</tool_response>")
CODE_TOOL = "code"  # what the tool of such texts is called

Turns = list[dict[str, str]]


def split_message(message: Mapping[str, Any], role: str) -> list[Mapping[str, Any]]:
    """Return a message in the spelling of OpenAI, in which each observation is a message of its own."""
    parts = message.get("content", message.get("value"))
    if role != "assistant" and str(parts).lstrip().startswith("<tool_response>"):
        return [{**message, "role": TOOL, "content": text} for text in RESPONSE.findall(parts)] or [message]
    found: dict[str, list[Any]] = {"tool_use": [], "tool_result": [], "other": []}
    for part in parts if isinstance(parts, list) else []:
        found.get(str(part.get("type")) if isinstance(part, Mapping) else "", found["other"]).append(part)
    if not found["tool_use"] and not found["tool_result"]:
        return [message]
    results = [{**part, "role": TOOL, "tool_call_id": part.get("tool_use_id")} for part in found["tool_result"]]
    calls = [{**part, "arguments": part.get("input")} for part in found["tool_use"]]
    rest = [{**message, "content": found["other"], "tool_calls": calls}] if calls or found["other"] else []
    return [*results, *rest]


def calls_tools(message: Mapping[str, Any], role: str) -> bool:
    """Return whether a message calls a tool, or is an observation."""
    return role in (*OBSERVATIONS, *CALLS) or any(message.get(field) for field in FIELDS)


def called_names(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the names of the tools that messages call."""
    names = dict[str, None]()
    for message in messages:
        for value in _calls_of(message):
            if isinstance(value, Mapping):
                names[str(value.get("name", "a tool"))] = None
    return ", ".join(names) or "a tool"


def _tool_calls(message: Mapping[str, Any]) -> list[Any]:
    """Return the field ``tool_calls``, which may be anything, as a list."""
    calls = message.get("tool_calls") or []
    return calls if isinstance(calls, list) else [calls]


def _calls_of(message: Mapping[str, Any]) -> list[Any]:
    """Return the calls in the fields of a message, of whatever form."""
    values = [call.get("function", call) if isinstance(call, Mapping) else call for call in _tool_calls(message)]
    if message.get("function_call"):
        values.append(message["function_call"])
    return values


def read_turns(messages: Sequence[Mapping[str, Any]], roles: Sequence[str], texts: Sequence[str]) -> Turns:
    """Return the turns and observations of the messages behind a question.

    Raises:
        Unusable: a call is not JSON, an observation answers no call, or there are other roles.
    """
    turns: Turns = []
    ids: list[str] = []  # of the calls of the last turn
    answers: dict[str, str] = {}
    for message, role, text in zip(messages, roles, texts, strict=True):
        if role in OBSERVATIONS:
            if not turns:
                raise Unusable("unanswered_call", "an observation before the first turn")
            of_call = str(message.get("tool_call_id") or "")
            if ids and of_call:
                answers[of_call] = text
                if set(answers) == set(ids):
                    turns += [{"role": TOOL, "content": answers[name]} for name in ids]
                    ids, answers = [], {}
                elif of_call not in ids:
                    raise Unusable("unanswered_call", f"an observation of {of_call!r:.40}, which no call before it has")
            else:
                turns.append({"role": TOOL, "content": text})
            continue
        if role not in ("assistant", *CALLS):
            raise Unusable("several_turns", f"a message of {role} between the turns; expected one user message")
        ids = [str(call["id"]) for call in _tool_calls(message) if isinstance(call, Mapping) and call.get("id")]
        text = "\n".join(filter(None, (text if role == "assistant" else "", _calls_text(message, role, text))))
        if turns and turns[-1]["role"] == "assistant":
            turns[-1]["content"] = "\n".join(filter(None, (turns[-1]["content"], text)))
        else:
            turns.append({"role": "assistant", "content": text})
    if answers:
        raise Unusable("unanswered_call", f"{len(ids)} calls, {len(answers)} observations")
    return turns


def _calls_text(message: Mapping[str, Any], role: str, text: str) -> str:
    """Return the calls of a message that do not stand in its text, as text."""
    values = [*_calls_of(message), *([text] if role in CALLS else [])]
    return write_calls([call for value in values for call in _read_calls(value)], "hermes") if values else ""


def _read_calls(value: Any) -> list[Call]:
    try:
        value = json.loads(value) if isinstance(value, str) else value
        if isinstance(value, list):
            return [call for one in value for call in _read_calls(one)]
        arguments = value.get("arguments", {})
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        return [Call(str(value["name"]), dict(arguments or {}))]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Unusable("bad_call", f"{value!r:.80}: expected a name, and arguments as an object") from None


def split_code(text: str) -> Turns:
    """Return the turns and observations of a text with pairs of code and the interpreter's output; [] without any."""
    turns: Turns = []
    start = 0
    for pair in CODE.finditer(text):
        fenced = FENCE.match(pair[1])
        call = write_calls([Call(CODE_TOOL, {CODE_TOOL: fenced[1] if fenced else pair[1].strip("\n")})], "hermes")
        turns.append({"role": "assistant", "content": f"{text[start : pair.start()].rstrip()}\n{call}".lstrip("\n")})
        turns.append({"role": TOOL, "content": pair[2].strip("\n")})
        start = pair.end()
    return [*turns, {"role": "assistant", "content": text[start:].strip()}] if turns else []
