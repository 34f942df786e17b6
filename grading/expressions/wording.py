r"""Take an answer out of the words and environments around it: ``\text{Answer: } 5``, ``aligned``, "for all real x"."""

from core.text.patterns import Match, compile_full_match, compile_pattern, compile_quick_pattern
from grading.answers.rewriting import rewrite, rules
from grading.expressions.tokens import TEXT, divide, enclosed
from grading.expressions.units import UNIT_RULES
from grading.vocabulary import COMPLEX, GREEK, WORD, is_word

_SIGNS = {  # words that stand for a sign
    **dict.fromkeys(("infinity", "positive infinity", "infinite", "infinitely many"), "\\infty"),
    "negative infinity": "-\\infty",
    **dict.fromkeys(("all positive real numbers", "all positive reals"), "(0,\\infty)"),
    **dict.fromkeys(("all nonnegative real numbers", "all non-negative real numbers"), "[0,\\infty)"),
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
_BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_BASE = compile_full_match(
    r"\(?([\dA-Z]{1,200})\)? ?(?:_ ?(?:\{ ?)?\(?(?:\\text ?\{ ?)?|\\text ?\{ ?\((?=base)|\((?=base))(?:base)? ?\}? ?"
    rf"({'|'.join(_BASES)}|\d{{1,4}})[ )}}]{{0,4}}"
)
WHERE = "\\where"  # stands for a word before the conditions of a formula
MULTIPLICITY = "\\multiplicity"  # stands before how often a root counts
_SET = compile_quick_pattern(
    r"(?:\\(?:mathbb|mathbf|Bbb|mathrm) ?(?:\{ ?([NZQRC]) ?\}|([NZQRC])(?![a-zA-Z]))|(?<=\\in )([NZQR])(?![a-zA-Z]))"
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
    "only", r"(?:the )?only (?:real )?(?:solution|root|answer|value)", "alone", "exactly", "respectively",
    "in total", "altogether", "overall",
    "double", "repeated", r"as (?:required|desired)",
    r"(?:is )?(?:an? |with an? )?repeated(?: real)? (?:root|solution|zero)s?",
    rf"(?:(?:where|for|with){_N})?(?:all|any|every|each|arbitrary){_N}(?:(?:real|complex){_N})?(?:(?:numbers?"
    rf"|values?){_N})?"
    rf"(?:of{_N})?[a-z]?{_REALS}",
    rf"\\forall ?[a-z](?:, ?[a-z])?{_REALS}",
    rf"(?:(?:where|for|with){_N})?[a-hj-z](?<![k-n]){_IN_REALS}",
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
    rf"(?i)[ ~(,]{{0,3}}(?:\\text ?\{{[ (,]{{0,3}})?(?:is )?(?:an? |with an? )?"
    r"(?:(?P<word>simple|double|triple)(?: real)? (?:root|solution|zero)s?"
    rf"|(?:with |of )?(?:multiplicity|mult\.|order){_N}(?:of )?(?P<number>one|two|three|\d)"
    rf"|\b(?P<twice>twice)(?=[\s.)}}]{{0,4}}(?:,|\Z)))[ )]{{0,3}}(?:\}}[ )]{{0,3}})?"
)
_TIMES = {"simple": 1, "one": 1, "double": 2, "two": 2, "twice": 2, "triple": 3, "three": 3}
_INTEGER = compile_quick_pattern(
    rf"(?i){_START}(?:(?:where|for|with|and|\\forall|all|any|every|each|some|an?|arbitrary){_N}){{0,4}}"
    rf"(?:integers?{_N}(?P<one>[a-z])|(?P<two>[a-z]){_N}(?:(?:is|are|any|an?|arbitrary|be){_N}){{0,3}}integers?"
    rf"|(?P<three>[a-z]) ?\\in ?\\mathbb\{{[ZN]\}}){_END}"
)


def _labelled(label: Match) -> str:
    words = label.group(1)
    return f"\\text{{{words}:}} " if _deny(words.split()) else f"\\text{{{words}}}="


_REWRITTEN = rules(  # spellings that mean the same in mathematics, but not in a text
    ("text", r"\A\\text ?\{([^{}:]{1,60}?)(?:(?: ?:| is| are| equals) ?\}|\} ?:) ?(?=\S)", _labelled),
    (  # a transposed tuple is a tuple
        "^",
        r"\A[(\[]([^()[\]&]{1,200},[^()[\]&]{1,200})[)\]] ?\^ ?\{? ?"
        r"(?:[Tt]|\\top|\\intercal|\\prime|\\(?:text|mathsf) ?\{? ?T ?\}?) ?\}?\Z",
        r"(\1)",
    ),
    ("in", r" ?\(([a-z] ?\\in ?\\mathbb ?\{[NZ]\})\)\Z", r", \1"),
    ("=", r">=|=>", r"\\ge "),
    ("=", r"<=", r"\\le "),
    ("U", r"(?<=[)\]}]) ?U ?(?=[(\[]|\\\{)", r"\\cup "),
    ("mathbb", r"(\\mathbb ?\{[NZQRC]\}) ?- ?(?=\\\{)", r"\1\\setminus "),
    ("]", r"\A\]([^][]{1,80})(?=[][]\Z)", r"(\1"),  # ]1,2[ is an open interval
    ("[", r"(?<=\A[(\[])([^][]{1,80})\[\Z", r"\1)"),
    ("\\{", r"\\(max|min|gcd|lcm) ?\\\{([^{}]{1,80})\\\}", r"\\\1(\2)"),
    ("A", r"\\(?:AA(?![a-zA-Z])|mathring ?\{ ?(?:A|\\text ?\{A\}) ?\})", r"\\text{ angstrom}"),
    ("x", r"(?<=\d) ?x ?(?=10 ?\^)", r" \\times "),
    ("\\", r"\\(?:hat|vec|overrightarrow) ?(?:\{ ?\\?([ijk])(?:math)? ?\}|([ijk])(?![a-zA-Z]))", r"\\mathbf{\1\2}"),
    ("\\", r"\\(?:hat|vec|widehat|mathbf) ?\{ ?\\mathbf ?\{ ?([ijk]) ?\} ?\}", r"\\mathbf{\1}"),
)
_DENIALS = frozenset((  # words that make a name that of another value
    "not", "no", "never", "wrong", "incorrect", "false", "double", "half", "twice", "except", "least", "most", "more",
    "less", "than", "over", "under", "bound", "about", "approximately",
))  # fmt: skip
_BRACED = r"\{(?:[^{}]|\{[^{}]*\})*\}"
_GREEK = rf"\\(?:ell|hbar|{'|'.join(sorted(GREEK))})(?![a-zA-Z])"
_TEXT_NAME = compile_full_match(r"\\text ?\{[^{}]*\}(?:\\triangle|[][()A-Z])*")
_MEASURE = compile_full_match(  # an extreme with letters, a probability or mean, an area, a part of a figure, points
    r"\\(?:max|min|lim)(?:(?:[^a-zA-Z\\]|\\[a-zA-Z]+)*[a-zA-Z].*)?|[PE]\((?:[^()]|\([^()]*\))*\)|\[[A-Z]{3,}\]"
    r"|(?:\\(?:angle|triangle|overline|vec)|\|)[|{}A-Z]*|[A-Z]+|\\det[A-Z]"
    rf"|\\(?:sin|cos|tan|cot|sec|csc)(?:[A-Za-z]|{_GREEK})"
)
_SYMBOL = compile_full_match(
    rf"(?:[^\W\d_]|{_GREEK}|\\(?:hat|bar|vec|mathbf|overline|mathcal|dot)(?:{_BRACED}|\\[a-zA-Z]+|\w))"
    rf"(?:'|_(?:{_BRACED}|\\text ?{_BRACED}|\\[a-zA-Z]+|\d+|\w)"
    r"|\^(?:\{(?:\\prime|\*|\\prime\\prime)\}|\\prime|\*|(?P<inverse>\{-1\})))*"
    rf"(?:\((?:\w|[,()]|{_GREEK})*\))?"
)


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
    text = without_qualifiers(_BEFORE.sub("", _SET.sub(_number_set, text)))
    text = rewrite(rewrite(text, _REWRITTEN), UNIT_RULES)
    if (rows := _ROWS(text)) and not (rows.group(1) == "cases" and "&" in rows.group(2)):
        lines = [line.replace("&", "").strip().rstrip(",;.") for line in rows.group(2).split("\\\\")]
        return ",".join(line for line in lines if line)
    return text


def _number_set(name: Match) -> str:
    r"""Return a set of numbers with its sign as an interval or another set: ``\mathbb{R}^+`` is ``(0,\infty)``."""
    *letters, script = name.groups("")
    sign = "".join(character for character in script if character not in "_^{} ")
    return _SETS.get("".join(letters), {}).get(sign, f"\\mathbb{{{''.join(letters)}}}{script}")


def without_qualifiers(text: str) -> str:
    r"""Return a text without the words behind it that restrict nothing; what is said of an integer is a condition, and
    how often a root counts is a part of it.

    >>> without_qualifiers(r"f(x)=x \text{ for all real } x"), without_qualifiers(r"x=2\text{ (double root)}")
    ('f(x)=x', 'x=2\\multiplicity{2}')
    >>> without_qualifiers(r"k\pi \text{ for any integer } k"), without_qualifiers(r"(1,1)\text{ or only }")
    ('k\\pi \\where k\\in\\mathbb{Z}', '(1,1)\\text{ or only }')
    """
    text = _MULTIPLICITY.sub(_times, text)
    for _ in range(3):
        integer = _INTEGER.search(text)
        qualifier = integer or _QUALIFIER.search(text)
        rest = text[: qualifier.start()] if qualifier else ""
        if not rest.strip() or not _is_balanced(rest):
            return text
        text = rest.rstrip(" ,;")
        if integer:
            letter = integer["one"] or integer["two"] or integer["three"]
            return f"{text} {WHERE} {letter}\\in\\mathbb{{{'N' if 'N}' in integer.group() else 'Z'}}}"
    return text


def _times(said: Match) -> str:
    word = (said["word"] or said["number"] or said["twice"]).lower()
    return f"{MULTIPLICITY}{{{_TIMES.get(word) or int(word)}}}" if _is_balanced(said.group()) else said.group()


def _is_balanced(text: str) -> bool:
    return text.count("{") == text.count("}") and text.count("(") + text.count("[") == text.count(")") + text.count("]")


def in_signs(prose: str) -> str | None:
    r"""Return words that stand for a sign as that; None for other words.

    >>> in_signs("infinity"), in_signs("All real numbers"), in_signs("ellipse")
    ('\\infty', '\\mathbb{R}', None)
    """
    return _SIGNS.get(prose.lower().removesuffix("."))


def labelled_parts(text: str) -> list[str]:
    r"""Return the answers behind ``(a)``, ``(b)`` and so on; empty for a text that is not divided so.

    >>> labelled_parts(r"(a) 2, (b) x+1"), labelled_parts(r"\text{a) } 3 \text{ and b) } 5"), labelled_parts("(a)(b)")
    (['2', 'x+1'], ['3', '5'], [])
    """
    marks = list(_PART.finditer(text))
    labels = "".join(mark.group(1) for mark in marks)
    if len(marks) < 2 or marks[0].start() or not "abcdef".startswith(labels):
        return []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    parts = [_BETWEEN_PARTS.sub("", text[mark.end() : end]).strip() for mark, end in zip(marks, ends, strict=True)]
    return parts if all(parts) else []


def with_base(text: str) -> str:
    r"""Return a number with its base, a word or behind it, as ``101_{2}``.

    >>> with_base("(101)_2"), with_base(r"101_{\text{two}}"), with_base(r"2B\text{ (base 12)}"), with_base("x_2")
    ('101_{2}', '101_{2}', '2B_{12}', 'x_2')
    """
    if not (match := _BASE(text)) or not any(map(str.isdigit, match.group(1))):
        return text
    return f"{match.group(1)}_{{{_BASES.get(match.group(2), match.group(2))}}}"


def is_abbreviation(side: list[str]) -> bool:
    """Return whether a side is several capital letters, which name a quantity: ``MR = SRMC`` gives no value of MR."""
    letters = "".join(TEXT.sub(r"\1", "".join(side)).split())
    return len(letters) > 1 and letters.isalpha() and letters.isupper()


def name_of(side: list[str]) -> str | None:
    r"""Return the name that a side is, such as ``b``, ``x_1``, ``f(x)``, ``AB``, ``\text{area}``; None for others."""
    name = "".join(part for part in side if not part.isspace())
    if _TEXT_NAME(name):
        return None if _deny(TEXT.sub(r"\1", "".join(side)).replace(":", " ").split()) else name
    words = "".join(side).split()
    if words and len(words[0]) > WORD and all(map(_is_word, words)) and not _deny(words):
        return name
    return name if _MEASURE(name) or _are_names(side) or _is_symbol(name) else None


def _is_word(word: str) -> bool:
    return word.isalpha() and is_word(word)


def _deny(words: list[str]) -> bool:
    return not _DENIALS.isdisjoint(map(str.lower, words))


def _are_names(side: list[str]) -> bool:
    """Return whether a ratio or a tuple is one of names."""
    pieces, signs = divide(side, (":",))
    if not signs and enclosed(pieces[0]) and pieces[0][0] == "(":
        pieces, signs = divide(pieces[0][1:-1], (",",))
    return bool(signs) and all(map(name_of, pieces))


def _is_symbol(name: str) -> bool:
    """Return whether a letter with accents, indices, primes and arguments is one: no conjugate, which has a value."""
    symbol = _SYMBOL(name)
    if symbol is None or (name.startswith(("\\overline", "\\bar")) and not COMPLEX.isdisjoint(name)):
        return False
    # "-1" marks the inverse of a function or matrix; that of a number is another number.
    return symbol["inverse"] is None or name[0] in "fgh" or name[0].isupper() or name.endswith(")")
