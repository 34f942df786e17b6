"""Read the answers of OpenAI-compatible endpoints in any of their forms: a completion, or the reason of an error.

Thoughts may be in a field of their own, as a text, an object or a list, among the parts of the content, or in the text
itself between think tags. A completion has them once, between think tags, before the answer.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from core.errors import InputError, first_line
from core.model.calls import Call
from evaluation.generation.requests import Completion

THINK, THINK_END = "<think>", "</think>"
THOUGHTS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")  # fields of a message, the first counts
TEXTS = ("text", "content", "thinking", "reasoning", "summary", "refusal")  # fields of a part, the first counts
THOUGHT_PARTS = ("thinking", "reasoning")  # a part whose type begins so, such as "reasoning.text", is of the thoughts
HIDDEN = ("redacted", "encrypted")  # words in the type of a part that only its provider can read
REASONS = ("message", "msg", "detail", "error", "errors", "reason", "title")  # fields that say what is wrong
CUT = ("length", "max_tokens", "max_output_tokens", "model_length")  # names of the same end, at the token limit
LONGEST_REASON = 300  # characters
MOST_TOKENS = 2**31 - 1  # the largest number that a table holds


class UnreadableAnswer(InputError):
    """An answer of no known form."""


class Usage(NamedTuple):
    """The tokens of a prompt and of its answer; 0 where the endpoint does not say."""

    prompt: int
    answer: int


def read_answer(raw: str) -> tuple[Completion, Usage]:
    """Return the completion in the body of a successful response, and its usage.

    Raises UnreadableAnswer, with the reason that the endpoint states if it states one.
    """
    body = _parsed(raw)
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        reason = reason_of(json.dumps(choice)) or reason_of(raw) or "is it an OpenAI-compatible one?"
        raise UnreadableAnswer(f"the endpoint answered without a choice: {reason}")
    try:
        text = with_thoughts(*_message(message))
    except (_UnknownForm, RecursionError) as error:
        raise UnreadableAnswer(f"the endpoint answered in a form that is not known: {first_line(error)}") from None
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half a character cannot be stored
    usage = _usage(body.get("usage"))
    finish_reason = str(choice.get("finish_reason") or "unknown").lower()
    return Completion(text, usage.answer, "length" if finish_reason in CUT else finish_reason), usage


def read_tool_calls(raw: str) -> list[tuple[str, Call]]:
    """Return the calls of tools in a body that `read_answer` has read, each with its id."""
    asked = _parsed(raw)["choices"][0]["message"].get("tool_calls") or []
    return [(str(call.get("id")), _call(call.get("function") or {})) for call in asked]


def _call(function: Mapping[str, Any]) -> Call:
    arguments = _parsed(function.get("arguments") or "{}")
    if isinstance(arguments, dict):
        return Call(str(function.get("name")), arguments)
    return Call("", {}, "the arguments are no JSON object")


def with_thoughts(text: str, thoughts: str) -> str:
    """Put one think block before ``text``: the thoughts inside the text, or else ``thoughts``.

    >>> with_thoughts("4", "2+2")
    '<think>\\n2+2\\n</think>\\n\\n4'
    >>> with_thoughts("<think>2+2</think>4", "2+2")
    '<think>2+2</think>4'
    """
    if not thoughts.strip():
        return text
    written, closing, rest = text.partition(THINK_END)
    if closing and written.replace(THINK, "").strip():
        return text
    answer = (rest if closing else text).lstrip("\n")
    return f"{THINK}\n{thoughts}\n{THINK_END}\n\n{answer}" if answer else f"{THINK}\n{thoughts}"


def reason_of(raw: str) -> str:
    """Return the error that the body of a response describes, in one line; "" if it describes none."""
    body = _parsed(raw)
    try:
        reason = raw if body is None else _reason(body)
    except RecursionError:
        reason = ""
    return " ".join("".join(c if c.isprintable() else " " for c in reason[: 4 * LONGEST_REASON]).split())[
        :LONGEST_REASON
    ]


class _UnknownForm(Exception):
    """A part of an answer from which no text can be read."""


def _parsed(raw: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _message(message: Mapping[str, Any]) -> tuple[str, str]:
    fields = (_text(message.get(name)) for name in THOUGHTS)
    thoughts = next((field for field in fields if field.strip()), "")
    content = message.get("content")
    if not isinstance(content, list):
        return _text(content) or _text(message.get("refusal")), thoughts
    texts = {True: "", False: ""}
    for part in content:
        texts[_is_thought(part)] += _text(part)
    return texts[False], thoughts if thoughts.strip() else texts[True]


def _is_thought(part: Any) -> bool:
    return isinstance(part, dict) and str(part.get("type", "")).startswith(THOUGHT_PARTS)


def _text(value: Any) -> str:
    """Return the text of a text, of a part of a message, or of a list of them."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "".join(map(_text, value))
    if not isinstance(value, dict):
        raise _UnknownForm(f"{value!r:.100} where a text is expected")
    if any(mark in str(value.get("type", "")) for mark in HIDDEN):
        return ""
    for name in TEXTS:
        if value.get(name) is not None:
            return _text(value[name])
    raise _UnknownForm(f"a part with the fields {', '.join(map(str, value))[:100]}: {value!r:.100}")


def _usage(usage: Any) -> Usage:
    counts = usage if isinstance(usage, dict) else {}
    numbers = (counts.get(name) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(*(int(n) if isinstance(n, int | float) and 0 <= n <= MOST_TOKENS else 0 for n in numbers))


def _reason(body: Any) -> str:
    """Return the reason in a parsed body: a text, or the first of `REASONS` of an object, as deep as it is."""
    if isinstance(body, list):
        return "; ".join(filter(None, map(_reason, body)))
    if not isinstance(body, dict):
        return body if isinstance(body, str) else ""
    stated = next((reason for name in REASONS if (reason := _reason(body.get(name)))), "")
    place = body.get("loc")  # FastAPI's validation errors have it
    return f"{'.'.join(map(str, place))}: {stated}" if stated and isinstance(place, list) else stated
