"""Where a response states its answer: in the last box after the last ``</think>``.

That is the rule of rewards, targets and benchmarks.
"""

from core.text.patterns import compile_quick_pattern

THINK_END = "</think>"
SEPARATOR = ", "  # between the labels of a gold answer that names several options
BOX = compile_quick_pattern(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_BARE_BOX = compile_quick_pattern(r"[^\s$]*")


def answer_part(text: str, *, thinking: bool) -> str | None:
    """The part of a response that states the answer: everything after the last ``</think>``.

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


def extract_boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{…}`` or ``\fbox{…}``; spaces before the brace are allowed.

    None if there is no box, if it is empty, or if its brace is never closed: a truncated answer does not count.

    >>> extract_boxed(r"so \boxed{1}, no: \boxed{\frac{1}{2}}")
    '\\frac{1}{2}'
    >>> extract_boxed(r"so \boxed{\frac{1}") is None
    True
    """
    boxes = [box.end() for box in BOX.finditer(text)]
    if not boxes:
        return None
    rest = text[boxes[-1] :]
    bare = _BARE_BOX.match(rest)
    content = braced(rest) if rest.startswith("{") or bare is None else bare.group()
    return content.strip() or None if content is not None else None


def braced(text: str) -> str | None:
    r"""The content of the brace that opens ``text``, or None if it is never closed; ``\{`` and ``\}`` do not count.

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
