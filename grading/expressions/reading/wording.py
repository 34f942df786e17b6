r"""Take an answer out of the words and environments around it: ``\text{Answer: } 5``, ``twelve``, ``aligned``."""

from string import ascii_lowercase

from core.text.patterns import compile_full_match, compile_pattern, compile_quick_pattern
from grading.expressions.answer_tokens import TEXT, strip

TO = "\\upto"  # stands for "to" between numbers
_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
NUMBER_WORDS = {word: number for number, word in enumerate(_ONES)} | {
    word: 10 * number for number, word in enumerate(_TENS, start=2)
}
_SIGNS = {
    **dict.fromkeys(("infinity", "positive infinity", "infinite", "infinitely many"), "\\infty"),
    "negative infinity": "-\\infty",
    **dict.fromkeys(
        ("all real numbers", "all reals", "all real values", "any real number", "every real number"), "\\mathbb{R}"
    ),
}
_ANSWER = compile_quick_pattern(
    r"(?i)\A(?P<text>\\text ?\{ ?)?(?:the )?(?:final )?answer(?: is\b)?(?:(?P<end>(?: ?:)? ?\})| ?:| (?!is\b))"
)
_ROWS = compile_full_match(
    r"(?s)\\begin ?\{(aligned|align\*?|gathered|cases)\}(.*)\\end ?\{(?:aligned|align\*?|gathered|cases)\}"
)
_PART = compile_quick_pattern(r"(?:\A|(?<=[\s,;}]))(?:\\text ?\{ ?)?\(?([a-f])\)[.:]?(?: ?\})? ?")
_BETWEEN_PARTS = compile_pattern(r"(?:[\s,;]|and|\\text ?\{(?: ?,? ?and)? ?\}?)+\z")
_BASE = compile_full_match(
    r"\(?([\dA-Z]{1,200})\)? ?(?:_ ?(?:\{ ?)?(?:\\text ?\{ ?)?|\\text ?\{ ?\((?=base)|\((?=base))(?:base)? ?\}? ?"
    r"([a-z]{3,9}|\d{1,4})[ )}]{0,4}"
)


# Spellings of one place, which neither `grading.answers.spelling` nor the reader know.
_REWRITTEN = tuple(
    (compile_quick_pattern(pattern), replacement)
    for pattern, replacement in (
        (r'\A["`\u201c]([^"`\u201c\u201d]+)["`\u201d]\Z', r"\1"),
        (r"\\ensuremath ?\{([^{}]*)\}", r"\1"),
        (r"\\\\ ?\[\d{1,2}(?:\.\d{1,2})? ?[a-z]{2}\]", r"\\\\"),  # the distance to the next row
        (r"\\\\ ?\Z", ""),
        (r"\\(?:[hv]space|[hv]?phantom)\*? ?\{[^{}]{0,40}\}", " "),
        (r" ?\(([a-z] ?\\in ?\\mathbb ?\{[NZ]\})\)\Z", r", \1"),
        (r"\\colon(?![a-zA-Z])", ":"),
        (r"\\&", r"\\text{ and }"),
        (r">=", r"\\ge "),
        (r"<=", r"\\le "),
        (r"(?<=[)\]}]) ?U ?(?=[(\[]|\\\{)", r"\\cup "),
        (r"(\\mathbb ?\{[NZQRC]\}) ?- ?(?=\\\{)", r"\1\\setminus "),
        (r"\A\]([^][]{1,80})(?=[][]\Z)", r"(\1"),  # ]1,2[ is an open interval
        (r"(?<=\A[(\[])([^][]{1,80})\[\Z", r"\1)"),
        (r"(?<=[\d)}]) ?(?:\\text ?\{ ?mod ?\}|mod) ?(?=\d)", r" \\bmod "),
        (r"\\(max|min|gcd|lcm) ?\\\{([^{}]{1,80})\\\}", r"\\\1(\2)"),
        (r"\\(?:AA(?![a-zA-Z])|mathring ?\{ ?(?:A|\\text ?\{A\}) ?\})", r"\\text{ angstrom}"),
        (r"(?<=\d) ?x ?(?=10 ?\^)", r" \\times "),
        (r"(?<=\A\d) (?=\d{3}\Z)|(?<=\A\d\d) (?=\d{3}\Z)|(?<=\A\d{3}) (?=\d{3}\Z)", ""),
        (r"(?<=[\d}]) ?(?:\\text ?\{ ?to ?\}|to) ?(?=[\d\\])", f"\\{TO} "),
        (r"\\(?:hat|vec|overrightarrow) ?(?:\{ ?\\?([ijk])(?:math)? ?\}|([ijk])(?![a-zA-Z]))", r"\\mathbf{\1\2}"),
        (r"\\(?:hat|vec|widehat|mathbf) ?\{ ?\\mathbf ?\{ ?([ijk]) ?\} ?\}", r"\\mathbf{\1}"),
    )
)  # fmt: skip


def unwrap(text: str) -> str:
    r"""Return what stands behind "Answer:" or in the lines of an environment, which are a list.

    >>> unwrap(r"\text{The answer is } 5"), unwrap("Answer: x=2"), unwrap(r"\begin{aligned}x&=2\\y&=3\end{aligned}")
    ('5', 'x=2', 'x=2,y=3')
    """
    if answer := _ANSWER.match(text):
        rest = text[answer.end() :].lstrip(": ")
        text = f"\\text{{{rest}" if answer["text"] and not answer["end"] else rest
    if (whole := TEXT.fullmatch(text)) and any(map(str.isdigit, text)):
        text = whole.group(1).strip()
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    if (rows := _ROWS(text)) and not (rows.group(1) == "cases" and "&" in rows.group(2)):
        lines = [line.replace("&", "").strip().rstrip(",;.") for line in rows.group(2).split("\\\\")]
        return ",".join(line for line in lines if line)
    return text


def in_signs(prose: str) -> str | None:
    r"""Return words that stand for a number or sign as that; None for other words.

    >>> in_signs("Twelve"), in_signs("forty-two apples"), in_signs("infinity"), in_signs("ellipse")
    ('12', '42\\text{ apples}', '\\infty', None)
    """
    words = prose.lower().rstrip(".").replace("-", " ").split()
    if len(words) > 1 and words[0] in ("negative", "minus") and words[1] in NUMBER_WORDS:
        return f"-{in_signs(' '.join(words[1:]))}"
    if not words:
        return None
    number = NUMBER_WORDS.get(words[0])
    if number is None:
        return _SIGNS.get(" ".join(words))
    position = 1
    if number >= 20 and 0 < NUMBER_WORDS.get("".join(words[1:2]), 0) < 10:
        number, position = number + NUMBER_WORDS[words[1]], 2
    rest = " ".join(words[position:])
    return f"{number}\\text{{ {rest}}}" if rest else str(number)


def labelled_parts(text: str) -> list[str]:
    r"""Return the answers behind ``(a)``, ``(b)`` and so on; empty for a text that is not divided so.

    >>> labelled_parts(r"(a) 2, (b) x+1"), labelled_parts(r"\text{a) } 3 \text{ and b) } 5"), labelled_parts("(a)(b)")
    (['2', 'x+1'], ['3', '5'], [])
    """
    marks = list(_PART.finditer(text))
    labels = "".join(mark.group(1) for mark in marks)
    if len(marks) < 2 or marks[0].start() or labels != ascii_lowercase[: len(labels)]:
        return []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    parts = [_BETWEEN_PARTS.sub("", text[mark.end() : end]).strip() for mark, end in zip(marks, ends, strict=True)]
    return parts if all(parts) else []


def label_of(parts: list[str]) -> tuple[list[str], list[str]] | None:
    r"""Return the label ``\text{Area:}`` or ``\text{The area is}`` and what it labels; None if there is none."""
    if len(parts) < 2 or not (words := TEXT.fullmatch(parts[0])):
        return None
    rest = strip(parts[1:])
    label = words.group(1).strip()
    if rest[0] == ":":
        label, rest = f"{label}:", strip(rest[1:])
    if not rest or not (label.endswith(":") or label.split()[-1:] in (["is"], ["are"], ["equals"])):
        return None
    return [f"\\text{{{label}}}"], rest


def with_base(text: str) -> str:
    r"""Return a number whose base is a word or stands behind it as ``101_{2}``.

    >>> with_base("(101)_2"), with_base(r"101_{\text{two}}"), with_base(r"2B\text{ (base 12)}"), with_base("x_2")
    ('101_{2}', '101_{2}', '2B_{12}', 'x_2')
    """
    if not (match := _BASE(text)) or not any(map(str.isdigit, match.group(1))):
        return text
    base = match.group(2) if match.group(2).isdigit() else NUMBER_WORDS.get(match.group(2))
    return text if base is None else f"{match.group(1)}_{{{base}}}"
