r"""Take an answer out of the words and environments around it: ``\text{Answer: } 5``, ``aligned``."""

from string import ascii_lowercase

from core.text.patterns import Match, compile_full_match, compile_pattern, compile_quick_pattern
from grading.expressions.tokens import TEXT, strip

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {word: number for number, word in enumerate(_ONES.split())} | {
    word: 10 * number for number, word in enumerate(_TENS.split(), start=2)
}
_SIGNS = {
    **dict.fromkeys(("infinity", "positive infinity", "infinite", "infinitely many"), "\\infty"),
    "negative infinity": "-\\infty",
    **dict.fromkeys(("all positive real numbers", "all positive reals"), "(0,\\infty)"),
    **dict.fromkeys(("all nonnegative real numbers", "all non negative real numbers"), "[0,\\infty)"),
    **dict.fromkeys(("all negative real numbers", "all negative reals"), "(-\\infty,0)"),
    **dict.fromkeys(
        ("all real numbers", "all reals", "all real values", "any real number", "every real number"), "\\mathbb{R}"
    ),
}
_ANSWER = compile_quick_pattern(
    r"(?i)\A(?P<text>\\text ?\{ ?)?(?:(?:the )?(?:final )?answer(?: is\b)?|(?:ans|result|solution|antwort"
    r"|ergebnis|r\u00e9ponse"
    r"|respuesta|\u7b54\u6848(?:\u662f|\u4e3a)?|\u7b54|\u6545|\u89e3)(?=\.? ?[:}]|\u662f|\u4e3a))\.?"
    r"(?:(?P<end>(?: ?:)? ?\})| ?:| (?!is\b)|(?<=[\u662f\u4e3a]))"
)
_ROWS = compile_full_match(
    r"(?s)\\begin ?\{(aligned|align\*?|gathered|gather\*?|equation\*?|split|cases|center)\}(.*)\\end ?\{[a-z]+\*?\}"
)
_PART = compile_quick_pattern(r"(?:\A|(?<=[\s,;}]))(?:\\text ?\{ ?)?\(?([a-f])\)[.:]?(?: ?\})? ?")
_BETWEEN_PARTS = compile_pattern(r"(?:[\s,;]|and|\\text ?\{(?: ?,? ?and)? ?\}?)+\z")
_BASE = compile_full_match(
    r"\(?([\dA-Z]{1,200})\)? ?(?:_ ?(?:\{ ?)?(?:\\text ?\{ ?)?|\\text ?\{ ?\((?=base)|\((?=base))(?:base)? ?\}? ?"
    r"([a-z]{3,9}|\d{1,4})[ )}]{0,4}"
)


WHERE = "\\where"  # stands for a word before the conditions of a formula
_SET = compile_quick_pattern(
    r"\\(?:mathbb|mathbf|Bbb|mathrm) ?(?:\{ ?([NZQRC]) ?\}|([NZQRC])(?![a-zA-Z]))"
    r"((?: ?[_^] ?(?:\{[^{}]{1,12}\}|\\[a-z]{2,8}|[-+*0])){0,2})"
)
_SETS = {  # the sign at the name of a set of numbers, and what it leaves
    "R": {
        **dict.fromkeys(("+", ">0", "+*", "*+", "++"), "(0,\\infty)"),
        **dict.fromkeys(("\\ge0", "+0", "0+"), "[0,\\infty)"),
        **dict.fromkeys(("-", "<0", "-*", "*-"), "(-\\infty,0)"),
        **dict.fromkeys(("\\le0", "-0", "0-"), "(-\\infty,0]"),
        **dict.fromkeys(("*", "\\times", "\\neq0"), "\\mathbb{R}\\setminus\\{0\\}"),
    },
    **dict.fromkeys(
        "ZN",
        dict.fromkeys(("+", "*", "+*", "*+", ">0", "\\ge1"), "\\mathbb{N}")
        | dict.fromkeys(("0", "\\ge0", "+0", "0+"), "\\mathbb{N}_0"),
    ),
}
_SPACED = compile_full_match(r"[+-]?\d{1,3}(?: \d{3}){1,9}")
_N = r"(?:[\s~]|\\text ?\{|\}){0,4}"  # between the words of a qualifier, whose text may be written in pieces
_START, _END = r"(?:[\s,;~]|\\text ?\{|\(){1,8}", r"[\s.~)}]{0,6}\Z"
_IN_REALS = rf"(?: ?\\in|{_N}in{_N}) ?\\mathbb\{{[RC]\}}"
_REALS = f"(?:{_IN_REALS})?"
_QUALIFIERS = (
    "only", "alone", "exactly", "respectively", "in total", "altogether", "overall", r"as (?:required|desired)",
    r"(?:is )?(?:an? |with an? )?(?:double|repeated|triple|simple)(?: real)? (?:root|solution|zero)s?",
    rf"(?:with |of )?(?:mult(?:iplicity|\.)|order){_N}(?:two|three|\d)", "twice", "double", "repeated",
    rf"(?:(?:where|for|with){_N})?(?:all|any|every|each|arbitrary){_N}(?:(?:real|complex){_N})?(?:(?:numbers?"
    rf"|values?){_N})?"
    rf"(?:of{_N})?[a-z]?{_REALS}",
    rf"\\forall ?[a-z](?:, ?[a-z])?{_REALS}",
    rf"(?:(?:where|for|with){_N})?[a-z]{_IN_REALS}",
)  # fmt: skip
_BEFORE = compile_quick_pattern(
    rf"(?i)\A\\text ?\{{ ?(?:only|exactly|just|so|thus|hence|therefore|i\.e\.|that is|we get|then|also|daher)[,:]?"
    r" ?\} ?"
    rf"|\A(?:only|exactly|just|so|thus|hence|therefore)[,:]? (?=[\d\\(-])"
    rf"|\A(?:\\forall|\\text ?\{{ ?for (?:all|any|every) ?\}}) ?[a-z]{_REALS} ?[:,] ?"
    r"|\A(?:\u6545|\u6240\u4ee5|\u56e0\u6b64)?(?:\u7b54\u6848?|\u89e3)(?:[\u662f\u4e3a]:?|:) ?"
)
_QUALIFIER = compile_quick_pattern(f"(?i){_START}(?:{'|'.join(_QUALIFIERS)}){_END}")
_MULTIPLICITY = compile_quick_pattern(
    rf"(?i)(?<![a-z])(?:(?P<word>simple|double|triple)(?: real)? (?:root|solution|zero)"
    rf"|(?:multiplicity|mult\.|order){_N}(?:of )?(?P<number>one|two|three|\d))"
)
_TIMES = {"simple": 1, "one": 1, "double": 2, "two": 2, "triple": 3, "three": 3}
_INTEGER = compile_quick_pattern(
    rf"(?i){_START}(?:(?:where|for|with|and|\\forall|all|any|every|each|some|an?|arbitrary){_N}){{0,4}}"
    rf"(?:integers?{_N}(?P<one>[a-z])|(?P<two>[a-z]){_N}(?:(?:is|are|any|an?|arbitrary|be){_N}){{0,3}}integers?"
    rf"|(?P<three>[a-z]) ?\\in ?\\mathbb\{{[ZN]\}}){_END}"
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
        (r"\\not ?=", r"\\neq "),
        (r"\\not ?\\in(?![a-zA-Z])", r"\\notin "),
        (r">=|=>", r"\\ge "),
        (r"<=", r"\\le "),
        (r"(?<=[)\]}]) ?U ?(?=[(\[]|\\\{)", r"\\cup "),
        (r"(\\mathbb ?\{[NZQRC]\}) ?- ?(?=\\\{)", r"\1\\setminus "),
        (r"\A\]([^][]{1,80})(?=[][]\Z)", r"(\1"),  # ]1,2[ is an open interval
        (r"(?<=\A[(\[])([^][]{1,80})\[\Z", r"\1)"),
        (r"\\(max|min|gcd|lcm) ?\\\{([^{}]{1,80})\\\}", r"\\\1(\2)"),
        (r"\\(?:AA(?![a-zA-Z])|mathring ?\{ ?(?:A|\\text ?\{A\}) ?\})", r"\\text{ angstrom}"),
        (r"(?<=\d) ?x ?(?=10 ?\^)", r" \\times "),
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
    if _SPACED(text):
        text = text.replace(" ", "")
    text = _SET.sub(_number_set, text)
    text = without_qualifiers(_BEFORE.sub("", text))
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    if (rows := _ROWS(text)) and not (rows.group(1) == "cases" and "&" in rows.group(2)):
        lines = [line.replace("&", "").strip().rstrip(",;.") for line in rows.group(2).split("\\\\")]
        return ",".join(line for line in lines if line)
    return text


def _number_set(name: Match) -> str:
    r"""Return a set of numbers with its sign as an interval or another set: ``\mathbb{R}^+`` is ``(0,\infty)``."""
    letter = name.group(1) or name.group(2)
    sign = "".join(character for character in name.group(3) if character not in "_^{} ")
    return _SETS.get(letter, {}).get(sign, f"\\mathbb{{{letter}}}{name.group(3)}")


def without_qualifiers(text: str) -> str:
    r"""Return a text without the words behind it that restrict nothing; what is said of an integer is a condition.

    >>> without_qualifiers(r"f(x)=x \text{ for all real } x"), without_qualifiers(r"x=2\text{ (double root)}")
    ('f(x)=x', 'x=2')
    >>> without_qualifiers(r"k\pi \text{ for any integer } k"), without_qualifiers(r"(1,1)\text{ or only }")
    ('k\\pi \\where k\\in\\mathbb{Z}', '(1,1)\\text{ or only }')
    """
    for _ in range(3):
        if integer := _INTEGER.search(text):
            letter = integer["one"] or integer["two"] or integer["three"]
            numbers = "N" if "N}" in integer.group() else "Z"
            rest, ending = text[: integer.start()], f" {WHERE} {letter}\\in\\mathbb{{{numbers}}}"
        elif qualifier := _QUALIFIER.search(text):
            rest, ending = text[: qualifier.start()], ""
        else:
            break
        if not rest.strip() or not _is_balanced(rest):
            break
        text = f"{rest.rstrip(' ,;')}{ending}"
        if ending:
            break
    return text


def multiplicity(text: str) -> int | None:
    r"""Return how often a root counts, if ``text`` says so.

    >>> multiplicity(r"2\text{ (double root)}"), multiplicity("x=2 (multiplicity 3)"), multiplicity("2")
    (2, 3, None)
    """
    if not (said := _MULTIPLICITY.search(text)):
        return None
    word = (said["word"] or said["number"]).lower()
    return _TIMES.get(word) or int(word)


def _is_balanced(text: str) -> bool:
    return text.count("{") == text.count("}") and text.count("(") + text.count("[") == text.count(")") + text.count("]")


def in_signs(prose: str) -> str | None:
    r"""Return words that stand for a number or sign as that; None for other words.

    >>> in_signs("Twelve"), in_signs("forty-two apples"), in_signs("infinity"), in_signs("ellipse")
    ('12', '42\\text{ apples}', '\\infty', None)
    """
    words = prose.lower().rstrip(".").replace("-", " ").split()
    if prose.startswith("-"):
        return None
    if len(words) > 1 and words[0] in ("negative", "minus") and words[1] in NUMBER_WORDS:
        return f"-{in_signs(' '.join(words[1:]))}"
    number = NUMBER_WORDS.get(words[0]) if words else None
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
