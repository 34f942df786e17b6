"""Find the answer in a response: after the last ``</think>``, in the last box or in another place.

Rewards, targets and benchmarks share this rule.
"""

import json

from core.text.patterns import compile_full_match, compile_quick_pattern

THINK_END = "</think>"
LETTERS = "ABCDEFGHIJ"  # labels of options
POSITIONS = {str(position): letter for position, letter in enumerate(LETTERS, start=1)}  # "1" stands for A
SEPARATOR = ", "  # between the labels of a gold answer that names several options
BOX = compile_quick_pattern(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_FILLED_BOX = compile_quick_pattern(r"\\(?:boxed|fbox)(?![a-zA-Z])(?!\s*\{\s*\})\s*")
_BARE_BOX = compile_quick_pattern(r"[^\s$]*")
BOXED, CODE_BLOCK, JSON, RESPONSE, TAG = "boxed", "code_block", "json", "response", "tag:"
# Places and what is missing where a response has no answer there; the place `RESPONSE` is the response with its
# thoughts, and so is never empty-handed.
PLACES = {
    BOXED: "nothing boxed",
    "after_thoughts": "nothing after the thoughts",
    "last_line": "nothing after the thoughts",
    f"{TAG}NAME": "no tag <NAME> with its end",
    CODE_BLOCK: "no code block with its end",
    JSON: "no JSON value",
    RESPONSE: "an empty response",
}
_NAME = compile_full_match(r"[A-Za-z][\w.-]*")
_FENCE = compile_full_match(r"(`{3,}|~{3,})[ \t]*+([\w+#.-]*+)[^`]*")  # a line without its indentation
_PYTHON = frozenset({"python", "python3", "py"})
_BRACKET = compile_quick_pattern(r"[{}\[\])]")
_LIKE_JSON = compile_quick_pattern(r"\{\s*[\"}]|\[\s*[\[{\"\]\dtfn-]")
_MEMBER = compile_quick_pattern(r"""[,\[{=]\s*\Z|["'\w]\s*:\s*\Z""")  # what stands before a part of an object or array
OPENINGS = 100  # brackets that open no JSON value, after which the rest of a text is not searched for one


def answer_part(text: str, *, thinking: bool) -> str | None:
    """Return the part of a response that states the answer: everything after the last ``</think>``.

    Without that tag it is None if ``thinking`` is expected, and the whole text otherwise.

    >>> answer_part("<think>2+2=4</think> So 4.", thinking=True)
    ' So 4.'
    >>> answer_part("<think>2+2=", thinking=True) is None
    True
    """
    _, closing, rest = text.rpartition(THINK_END)
    if closing:
        return rest
    return None if thinking else text


def text_after_thoughts(response: str, *, thinking: bool) -> str | None:
    """Return the text after the first ``</think>``, up to a second one.

    Without that tag, the result is None if ``thinking`` is expected, and the whole response otherwise.

    >>> text_after_thoughts("a</think>b", thinking=True), text_after_thoughts("a</think>b</think>c", thinking=True)
    ('b', 'b')
    """
    _, closing, rest = response.partition(THINK_END)
    if closing:
        return rest.partition(THINK_END)[0]
    return None if thinking else response


def extract_boxed(text: str) -> str | None:
    r"""Return the content of the last ``\boxed{…}`` or ``\fbox{…}`` that is not empty.

    Spaces before the brace are allowed. None if there is none, or if its brace is never closed: a truncated answer
    does not count.

    >>> extract_boxed(r"so \boxed{1}, no: \boxed{\frac{1}{2}}")
    '\\frac{1}{2}'
    >>> extract_boxed(r"so \boxed{\frac{1}") is None
    True
    >>> extract_boxed(r"\boxed{2}, in \boxed{} as asked")
    '2'
    """
    boxes = [box.end() for box in _FILLED_BOX.finditer(text)]
    if not boxes:
        return None
    rest = text[boxes[-1] :]
    bare = _BARE_BOX.match(rest)
    content = braced(rest) if rest.startswith("{") or bare is None else bare.group()
    return content.strip() or None if content is not None else None


def braced(text: str) -> str | None:
    r"""Return the content of the brace that opens ``text``; None if it is never closed. ``\{`` and ``\}`` do not count.

    >>> braced(r"{a{b}\}c} d")
    'a{b}\\}c'
    """
    depth, position = 0, 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
            continue
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return text[1:position]
        position += 1
    return None


def is_place(text: str) -> bool:
    """Return whether ``text`` names a place of answers: a key of `PLACES`, where a name stands for ``NAME``."""
    if text.startswith(TAG):
        return bool(_NAME(text.removeprefix(TAG)))
    return text in PLACES


def missing_at(place: str) -> str:
    """Describe what a response without an answer at ``place`` lacks."""
    if place.startswith(TAG):
        return PLACES[f"{TAG}NAME"].replace("NAME", place.removeprefix(TAG))
    return PLACES[place]


def find_answer(text: str, place: str) -> str | None:
    r"""Return the answer at ``place`` in the part of a response after its thoughts; None if there is none.

    >>> find_answer("so <answer>no</answer>, <answer> yes </answer>", "tag:answer"), find_answer("a\nb\n", "last_line")
    ('yes', 'b')
    >>> find_answer("```python\nx = 1\n```", "code_block"), find_answer('It is [1] or {"a": [2]}.', "json")
    ('x = 1\n', '{"a": [2]}')
    """
    if place == BOXED:
        return extract_boxed(text)
    if place.startswith(TAG):
        return _in_tag(text, place.removeprefix(TAG))
    if place == CODE_BLOCK:
        blocks = _code_blocks(text)
        return blocks[-1][1] or None if blocks else None
    if place == JSON:
        return json_value(text)
    whole = text.strip()
    return (whole.splitlines()[-1].strip() if place == "last_line" and whole else whole) or None


def _in_tag(text: str, name: str) -> str | None:
    end = text.rfind(f"</{name}>")
    start = text.rfind(f"<{name}>", 0, max(end, 0))
    return text[start + len(name) + 2 : end].strip() or None if start >= 0 else None


def python_block(text: str) -> str | None:
    """Return the content of the last block that is marked as Python, or else of the last block.

    >>> python_block("```python\\nprint(1)\\n```\\nprints\\n```\\n1\\n```")
    'print(1)\\n'
    """
    blocks = _code_blocks(text)
    marked = [content for language, content in blocks if language in _PYTHON]
    return (marked or [content for _, content in blocks] or [""])[-1] or None


def _code_blocks(text: str) -> list[tuple[str, str]]:
    """Return the blocks between lines of ``` or ~~~ that have a partner: language and content, without indentation."""
    blocks: list[tuple[str, str]] = []
    block: list[str] = []
    fence, language, indent = "", "", 0
    for line in text.splitlines(keepends=True):
        plain = line.lstrip()
        mark = _FENCE(plain)
        if mark and not fence:
            block, fence, language, indent = [], mark.group(1), mark.group(2).lower(), len(line) - len(plain)
        elif mark and mark.group(1).startswith(fence):
            blocks.append((language, "".join(block)))
            fence = ""
        elif fence:
            block.append(line[:indent].lstrip(" \t") + line[indent:])
    return blocks


def _is_part(before: str, of_json: bool) -> bool:
    """Return whether a value that follows is part of the broken one in which the text before it is.

    It is none behind prose: the broken value has ended there, though no bracket closes it.
    """
    member = _MEMBER.search(before)
    if ". " in before or "\n" in before:
        return bool(member) and not member.group()[0].isalpha()
    return of_json or bool(member)


def json_value(text: str, *, objects: bool = False) -> str | None:
    """Return the last object or array in a text, or the text itself where it is a value.

    A part of an object or array that is broken is none.

    Args:
        objects: whether an array of plain values is none either, because it may be the number of a reference.

    >>> json_value('{"a": 1}, as in [2]'), json_value('{"a": 1}, as in [2]', objects=True)
    ('[2]', '{"a": 1}')
    """
    if values := json_values(text, objects=objects):
        return values[-1]
    whole = text.strip()
    try:
        json.loads(whole)
    except (ValueError, RecursionError):
        return None
    return whole


def json_values(text: str, *, objects: bool = False) -> list[str]:
    """Return the objects and arrays in a text that are no part of another one, broken or not; see `json_value`."""
    decoder = json.JSONDecoder()
    position, failures = 0, 0
    found: list[tuple[int, str]] = []
    broken: list[tuple[int, bool]] = []  # brackets that no value begins with and none closes; whether one might begin
    while failures < OPENINGS and (bracket := _BRACKET.search(text, position)):
        start, position = bracket.span()
        if bracket.group() in "}])":
            if broken and (bracket.group() != ")" or text[broken[-1][0]] == "["):
                opening, _ = broken.pop()
                while found and found[-1][0] > opening:
                    found.pop()
            continue
        is_like_json = bool(_LIKE_JSON.match(text, start))
        try:
            value, end = decoder.raw_decode(text, start) if is_like_json else (None, None)
        except (ValueError, RecursionError):
            value = end = None
        if end is None:
            broken.append((start, is_like_json))
            failures += is_like_json
            continue
        position = end
        if objects and isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
            continue
        if not broken or not _is_part(text[max(broken[-1][0], start - 400) : start], broken[-1][1]):
            found.append((start, text[start:end]))
    return [value for _, value in found]
