"""Read chats of a source: the system message, question and answer of one turn, with the answer's thoughts.

A chat is a list of messages in {role, content} or {from, value} spelling, or such a list as JSON text. A chat of
several turns is refused: a trace pairs one question with one answer. One that calls tools is an episode, where there
are tools.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import first_line
from core.text.patterns import compile_quick_pattern
from targets.read.episodes import FIELDS, Turns, called_names, calls_tools, read_turns, split_message
from targets.read.response_format import find_format
from targets.source_settings import REASONING_COLUMNS
from targets.trace import CLOSE_THINK, OPEN_THINK, Unusable

ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "system": "system",
    "developer": "system",
}
TEXT_PARTS = ("text", "input_text", "output_text")  # types of the parts of a content
THOUGHT_PARTS = ("thinking", "reasoning", "summary_text")
HIDDEN_PARTS = ("redacted", "encrypted")  # in the type of a part that nobody but its provider can read
REASONING_PARTS = "reasoning_details"  # a field of a message with thoughts in parts
MESSAGE_AS_TEXT = compile_quick_pattern(r"""\{\s*["'](?:role|from|content|value)["']\s*:""")
HEAD = 200  # characters of a text that show whether it is a chat
NAMED_ROLES = 8  # of a chat, in a detail


@dataclass(frozen=True, slots=True)
class Chat:
    """A question and its answer; None where a chat has no message of this role. ``turns``: the answer of an episode."""

    system: str | None
    user: str | None
    assistant: str | None
    turns: Turns | None = None


def read_chat(value: Any, role: str, *, tools: bool = False) -> Chat | None:
    """The question and answer of a value that is a chat; None for any other value, which may be a text.

    ``role``: of a message that does not say its role. ``tools``: whether the answer may call tools. Raises `Unusable`
    for a chat of several turns, and for messages that cannot be read.
    """
    messages = _messages(value, role)
    if messages is None:
        return None
    messages = [part for message in messages for part in split_message(message, _role(message, role))]
    roles = [_role(message, role) for message in messages]
    if tools and any(calls_tools(message, role) for message, role in zip(messages, roles, strict=True)):
        return _episode(messages, roles)
    if any(message.get(field) for message in messages for field in FIELDS):
        raise Unusable("several_turns", f"it calls {called_names(messages)}: name it in tools.use")
    if roles != [role for role in ("system", "user", "assistant") if role in roles]:
        more = ", …" if len(roles) > NAMED_ROLES else ""
        raise Unusable(
            "several_turns",
            f"{', '.join(roles[:NAMED_ROLES])}{more}; expected one user and one assistant",
        )
    texts = {role: _message_text(message) for role, message in zip(roles, messages, strict=True)}
    return Chat(texts.get("system"), texts.get("user"), texts.get("assistant"))


def _episode(messages: Sequence[Mapping[str, Any]], roles: Sequence[str]) -> Chat:
    texts = [_message_text(message) or "" for message in messages]
    start = next(
        (number for number, role in enumerate(roles) if role not in ("system", "user")),
        len(roles),
    )
    head = dict(zip(roles[:start], texts[:start], strict=True))
    if len(head) < start:
        raise Unusable("several_turns", f"{', '.join(roles[:start])}; expected one user message")
    turns = read_turns(messages[start:], roles[start:], texts[start:])
    return Chat(
        head.get("system"),
        head.get("user"),
        "\n".join(turn["content"] for turn in turns) or None,
        turns,
    )


def with_thoughts(thoughts: str, text: str) -> str:
    """A response with its ``thoughts`` separate from its ``text``."""
    return f"{OPEN_THINK}{thoughts}{CLOSE_THINK}{text}"


def _messages(value: Any, role: str) -> Sequence[Mapping[str, Any]] | None:
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, Mapping) and ("role" in value or "from" in value or "content" in value):
        value = [value]
    if not isinstance(value, list) or not any(isinstance(message, Mapping) for message in value):
        return None
    if odd := [message for message in value if not isinstance(message, Mapping)]:
        raise Unusable("wrong_type", f"a chat message is a {type(odd[0]).__name__}")
    if all("type" in message and "role" not in message for message in value):
        return [{"role": role, "content": value}]  # the content of one message, in parts
    return value


def _parsed(text: str) -> Any:
    """The value of a text that is a chat in JSON; None for any other text."""
    if not MESSAGE_AS_TEXT.match(text[:HEAD].lstrip().removeprefix("[").lstrip()):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unusable("wrong_type", f"a chat as text that is not JSON ({first_line(error)})") from error


def _role(message: Mapping[str, Any], otherwise: str) -> str:
    """user, assistant or system; the role as it is written for others, such as tool."""
    role = message.get("role") or message.get("from") or (otherwise if "content" in message else None)
    if not isinstance(role, str):
        raise Unusable(
            "wrong_type",
            f"a chat message with the keys {', '.join(message)}; expected role and content",
        )
    return ROLES.get(role.strip().lower(), role[:40])


def _message_text(message: Mapping[str, Any]) -> str | None:
    """The text of a message; its thoughts, in a field or in parts of their own, become a think block before it."""
    content = message.get("content")
    text, thoughts = _join_parts(message.get("value") if content is None else content)
    for field in (*REASONING_COLUMNS, REASONING_PARTS):
        thoughts = thoughts or "".join(_join_parts(message.get(field)))
    if thoughts.strip() and find_format(text) is None:
        return with_thoughts(thoughts.strip(), text.strip())
    return text or None


def _join_parts(content: Any) -> tuple[str, str]:
    """(text, thoughts) of a content, which is a text or a list of parts."""
    if content is None or isinstance(content, str):
        return content or "", ""
    texts, thoughts = [], []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, Mapping):
            raise Unusable("wrong_type", f"content: expected text, found {type(part).__name__}")
        whole = str(part.get("type") or "text")
        if any(word in whole for word in HIDDEN_PARTS):
            continue
        kind = whole.partition(".")[0]  # reasoning.text is a kind of reasoning
        if kind not in (*TEXT_PARTS, *THOUGHT_PARTS):
            reason = "several_turns" if "tool" in kind else "wrong_type"
            raise Unusable(reason, f"content: a part of type {kind!r:.80}; expected text")
        names = ("text", "thinking", "reasoning", "summary", "content")
        if "type" not in part and not any(name in part for name in names):
            raise Unusable("wrong_type", f"content: a mapping of {list(part)!r:.80}; expected text")
        inner = "".join(_join_parts(next((part[name] for name in names if part.get(name)), None)))
        (thoughts if kind in THOUGHT_PARTS else texts).append(inner)
    return "".join(texts), "".join(thoughts)
