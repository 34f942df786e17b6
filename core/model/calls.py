"""Calls of tools in the text of a turn: how a policy writes them, and what its turns say.

The formats are ``hermes`` (``<tool_call>{"name": …, "arguments": {…}}</tool_call>``, of Qwen and Hermes), ``llama``
(the turn is ``{"name": …, "parameters": {…}}``) and ``tags`` (``<NAME>the one argument</NAME>``).
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

Format = Literal["hermes", "llama", "tags"]
Schema = Mapping[str, Any]  # of a function, as OpenAI's API takes it
THOUGHTS_END = "</think>"
HERMES = "tool_call"  # the tag around a call
PYTHON_TAG = "<|python_tag|>"  # with which Llama may begin a call


class Call(NamedTuple):
    """A call; ``problem`` says why it cannot be made: it has no known form then."""

    name: str
    arguments: Mapping[str, Any]
    problem: str = ""


def name_of(schema: Schema) -> str:
    """Return the name of the function that a schema describes."""
    return str(schema["function"]["name"])


def first_argument(schema: Schema) -> str:
    """Return the name of the first argument of a function, which is the one that ``tags`` writes."""
    return next(iter(schema["function"]["parameters"]["properties"]))


def read_calls(text: str, form: Format, schemas: Sequence[Schema] = ()) -> list[Call]:
    """Return the calls in the text of a turn, behind its thoughts.

    >>> read_calls('<tool_call>\\n{"name": "sum", "arguments": {"a": 1}}\\n</tool_call>', "hermes")
    [Call(name='sum', arguments={'a': 1}, problem='')]

    Args:
        text: The turn. Its thoughts may mention calls.
        form: The format in which it calls.
        schemas: The tools; ``tags`` reads the calls of these alone.
    """
    text = text.rpartition(THOUGHTS_END)[2]
    if form == "hermes":
        return [_object(tag.content, "arguments", closed=tag.closed) for tag in _tagged(text, [HERMES])]
    if form == "llama":
        return list(_objects(text.strip().removeprefix(PYTHON_TAG).strip()))
    arguments = {name_of(schema): first_argument(schema) for schema in schemas}
    return [
        Call(tag.name, {arguments[tag.name]: tag.content}, "" if tag.closed else f"no </{tag.name}> after <{tag.name}>")
        for tag in _tagged(text, arguments)
    ]


def write_calls(calls: Sequence[Call], form: Format) -> str:
    """Return the text that `read_calls` reads as ``calls``.

    Args:
        calls: Of one turn.
        form: The format; ``tags`` writes the first argument of a call, as a text.
    """
    if form == "tags":
        return "\n".join(f"<{call.name}>{_first_value(call)}</{call.name}>" for call in calls)
    key = "arguments" if form == "hermes" else "parameters"
    objects = [json.dumps({"name": call.name, key: call.arguments}, ensure_ascii=False) for call in calls]
    # JSON reads "<\\/" as "</", and so no tag in an argument ends the call.
    escaped = [text.replace("</", r"<\/") for text in objects]
    if form == "llama":
        return "; ".join(escaped)
    return "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in escaped)


def _first_value(call: Call) -> str:
    value = next(iter(call.arguments.values()), "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def rewrite_calls(text: str, old: Format, new: Format, schemas: Sequence[Schema] = ()) -> str:
    """Return a turn with its calls in the format ``new``, behind its text; as it is where a call cannot be read.

    >>> rewrite_calls('{"name": "sum", "parameters": {"a": 1}}', "llama", "hermes")
    '<tool_call>\\n{"name": "sum", "arguments": {"a": 1}}\\n</tool_call>'

    Args:
        text: The turn. What looks like a call within its thoughts is left there.
        old: The format of its calls.
        schemas: The tools; ``tags`` reads the calls of these alone.
    """
    calls = read_calls(text, old, schemas)
    if new == old or not calls or any(call.problem for call in calls):
        return text
    thoughts, end, said = text.rpartition(THOUGHTS_END)
    if old == "hermes":
        said = _without_tags(said, [HERMES])
    elif old == "tags":
        said = _without_tags(said, [name_of(schema) for schema in schemas])
    else:  # the calls are the whole turn
        said = ""
    around = f"{thoughts}{end}{said}".strip()
    written = write_calls(calls, new)
    return f"{around}\n{written}" if around else written


def _without_tags(text: str, names: Collection[str]) -> str:
    parts, last = list[str](), 0
    for tag in _tagged(text, names):
        parts.append(text[last : tag.start])
        last = tag.end
    return "".join([*parts, text[last:]])


class _Tag(NamedTuple):
    """A tag, and where it stands in its text; one that is not closed has all the rest."""

    name: str
    content: str
    closed: bool
    start: int
    end: int


def _tagged(text: str, names: Collection[str]) -> Iterator[_Tag]:
    """Yield each tag of ``names``, one after the other: the time is linear on any text."""
    start = text.find("<")
    while start >= 0:
        name = next((name for name in names if text.startswith(f"<{name}>", start)), None)
        if name is None:
            start = text.find("<", start + 1)
            continue
        body = start + len(name) + 2
        close = text.find(f"</{name}>", body)
        if close < 0:
            yield _Tag(name, text[body:], False, start, len(text))
            return
        end = close + len(name) + 3
        yield _Tag(name, text[body:close], True, start, end)
        start = text.find("<", end)


def _objects(text: str) -> Iterator[Call]:
    """Yield the calls of a turn that is nothing but objects, with ``;`` between them."""
    if not text.startswith("{"):
        return
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        try:
            _, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            yield Call("", {}, "the call is not JSON")
            return
        yield _object(text[position:end], "parameters")
        position = end + len(text[end:]) - len(text[end:].lstrip("; \n"))


def _object(text: str, key: str, *, closed: bool = True) -> Call:
    """Return the call that an object of JSON says."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return Call("", {}, "the call is not JSON" if closed else "no </tool_call> after <tool_call>")
    arguments = value.get(key, {}) if isinstance(value, dict) else None
    if not isinstance(arguments, dict) or not isinstance(value.get("name"), str):
        return Call("", {}, f'expected {{"name": …, "{key}": {{…}}}}')
    return Call(value["name"], arguments)
