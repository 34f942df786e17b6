"""Normalise answers that differ only in typography to one spelling."""

from collections.abc import Mapping

from core.text.patterns import Match, compile_full_match, compile_quick_pattern
from grading.answers.extraction import BOX, braced
from grading.answers.rewriting import rewrite, rules
from grading.answers.signs import to_latex
from grading.vocabulary import FUNCTIONS, SCHOOLS, WORD, is_word

LONGEST_PERIOD = 50  # digits of a repeating decimal
LONGEST_WRAPPED = 1200  # characters of an answer in bold letters, or the like

TEXT = compile_quick_pattern(
    r"\\(?:text(?:bf|rm|it|tt|sf|sc|sl|up|normal)?|math(?:rm|bf|it|sf|tt)|mbox|hbox|emph|operatorname)\s*\{([^{}]*)\}"
)
_BLANK = compile_quick_pattern(r"\s+")
_INNER_BLANK = compile_quick_pattern(r"(?<![\d.]) | (?![\d.])")
_COMMAND = compile_quick_pattern(r"\\(?:(?:left|right|bigg?l?r?|Bigg?l?r?)(?![a-zA-Z])\.?|[a-zA-Z]+|[^a-zA-Z])|~")
_BLANKS = (
    r"\, \; \: \> \  ~ \( \) \[ \] \quad \qquad \displaystyle \textstyle \scriptstyle \rm \bf \it \tt \sf \thinspace"
    r" \medspace \thickspace \enspace \nobreakspace \tiny \small \normalsize \large \Large \LARGE \huge \Huge \strut"
)
_EQUAL = {  # spellings of a command
    "\\frac": r"\dfrac \tfrac \cfrac \sfrac \nicefrac", "\\binom": r"\tbinom \dbinom", "|": r"\lvert \rvert \vert",
    "\\ldots": r"\dots \cdots \dotsc \dotsb \dotsm", "\\circ": r"\textdegree \degree", "\\boldsymbol": r"\bm \pmb",
    "\\\\": r"\cr", "\\setminus": r"\smallsetminus", "\\{": r"\lbrace", "\\}": r"\rbrace", "[": r"\lbrack",
    "]": r"\rbrack", "\\emptyset": r"\varnothing", ":": r"\colon", "&": r"\&",
    "\\le": r"\leqslant \leq", "\\ge": r"\geqslant \geq", "\\neq": r"\ne", "<": r"\lt", ">": r"\gt", "*": r"\ast",
    "\\cdot": r"\bullet", "\\lor": r"\vee", "\\land": r"\wedge", "\\phi": r"\varphi", "\\epsilon": r"\varepsilon",
    "\\theta": r"\vartheta", "\\rho": r"\varrho", "\\sigma": r"\varsigma", "\\mathrm": r"\mathop",
    "\\mathbb{R}": r"\R \reals", "\\mathbb{Z}": r"\Z", "\\mathbb{N}": r"\N", "\\mathbb{Q}": r"\Q",
    "\\vec": r"\overrightarrow", "\\text{ pounds}": r"\pounds \textsterling", "\\$": r"\textdollar \mathdollar",
    "\\text{ euros}": r"\euro \texteuro", "P": r"\Pr",
    "\\text{ \u00a5}": r"\yen \textyen", "\\text{ cents}": r"\textcent", "^\\circ\\text{C}": r"\celsius",
    "": r"\left \right \big \bigl \bigr \bigg \biggl \biggr \Big \Bigl \Bigr \Bigg \Biggl \Biggr \! \limits"
        r" \displaylimits \null",
}  # fmt: skip
_COMMANDS: Mapping[str, str] = {
    **dict.fromkeys((*_BLANKS.split(), "\\ "), " "),
    **{other: command for command, others in _EQUAL.items() for other in others.split()},
}
_UPRIGHT = compile_quick_pattern(
    r"\\(?:text(?:normal|rm|bf|it|tt|sf|sc|sl|up)?|math(?:rm|sf|it|bf|tt|normal)|boldsymbol|underline|mbox|hbox|emph"
    r"|operatorname\*?)\s*"
    r"\{((?:[^{}^]|\^(?:\s?\{\s?-?\d\s?\})?)*)\}(\s?[_^])?"
)
_BRACED_POWER = compile_quick_pattern(r"\^\s?\{\s?(-?\d)\s?\}")
_NAMES = FUNCTIONS | SCHOOLS.keys() | {"lg"}
_NAMES_OF_UNITS = frozenset({"min", "max", "sec"})  # as plain words these are no functions
_NUMBER = compile_full_match(r"-?\d+(?:\.\d+)?")
_THOUSANDS = compile_full_match(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_ROUND_THOUSANDS = compile_quick_pattern(
    r"(?<![\d,.])\d{1,3}(?:,\d{3}){0,4}(?:,0\d\d(?:,\d{3}){0,4}(?!,?\d)"
    r"|,\d{3}(?:\.\d{1,20})?(?= ?\\text| ?\\?%| (?!and|or|und|oder)(?:[a-z]{3}|[a-zA-Z]{1,3}(?:/[a-z]+|\^\d)?\Z)))"
)
_POINTED_THOUSANDS = compile_quick_pattern(r"(?<![\d.])[1-9]\d{0,2}(?:\.\d{3}){2,9}(?![\d.])")
_BRACED_THOUSANDS = compile_full_match(r"[1-9]\d{0,2}(?:\{,\}\d{3})+(?:\.\d+)?")
_BRACED_NUMBER = compile_quick_pattern(r"(?<![\d.{,}])\d{1,30}(?:\.\d{3}){0,9}(?:\{,\}\d{1,30})+(?:\.\d{1,30})?")
_DOLLARS = compile_full_match(r"(-?) ?\\\$ ?(-?) ?(\d[\d.,]*)")
_WRAPPED = compile_quick_pattern(
    r"\\(?:boxed|fbox|ensuremath|underline|(?:math|text)(?:bf|normal)|boldsymbol|bm|pmb|large|mbox|text|hbox) ?(?=\{)"
)
_MARKED = compile_full_match(r"""\*\*([^*]+)\*\*|\*([^*]+)\*|["'`\u201c\u2018]([^"'`\u201c\u201d]+)["'`\u201d\u2019]""")
_FULL_STOP = compile_quick_pattern(r"(?<=[\w}\])%|!'])\s?[.;]$|(?<=\d)\.(?=[/}]|\\(?!overline|bar|dot(?![a-z])))")
_ONLY_ITEM = compile_full_match(r"""\[\s*(?:'([^'"]+)'|"([^'"]+)"|(-?\d+(?:\.\d+)?))\s*\]""")  # a list as a text
_SCIENTIFIC = compile_quick_pattern(r"\A([+-]?\d+(?:\.\d+)?)[eE]([+-]?\d{1,4})(?=\Z| ?\\text| [a-zA-Z])")
_TH = r"\\(?:text|textrm|mathrm|mbox)\s?\{ ?(?:st|nd|rd|th) ?\}"
_ARGUMENT = r"\{?(\d{1,3}|[a-zA-Z]|(?<=\{)\w{1,3})\}?"
_COMBINATIONS = compile_quick_pattern(
    rf"(?<![a-zA-Z\\}}])(?:C_{_ARGUMENT} ?\^ ?{_ARGUMENT}|C ?\^ ?{_ARGUMENT}_{_ARGUMENT}"
    rf"|(?:\{{\}})?(?:_|\^) ?{_ARGUMENT} ?C_ ?{_ARGUMENT}|(?<!\w)(\d{{1,3}}) ?C ?(\d{{1,3}}))(?![\w}}])"
)
_REPEATING = compile_quick_pattern(
    rf"(\d{{0,{LONGEST_PERIOD}}})\.(\d{{0,{LONGEST_PERIOD}}})"
    rf"(?:\\(?:overline|bar) ?(?:\{{(\d{{1,{LONGEST_PERIOD}}})\}}|(\d))"
    rf"|\\dot ?\{{?(\d)\}}?(?:(\d{{0,{LONGEST_PERIOD}}})\\dot ?\{{?(\d)\}}?)?)"
)
_ATOMS = compile_quick_pattern(r"(?<=[A-Za-z)\]])\d+")
_CHARGE = compile_quick_pattern(r"(?<=[\w})])\^?(\d?[+-])(?=\Z| )")
_SI_UNIT = compile_quick_pattern(r"\\(centi|deci|hecto|kilo|mega|micro|milli|nano)\\")
_GROUP_SIGNS = compile_quick_pattern(r"(?<=\d)(?:,\\!\s*|\\,|,?\\!|~|\{\\,\})(?=\d{3}(?!\d))")
_ORDINAL = compile_quick_pattern(rf"(?<=\d)\s?(?:\^ ?\{{ ?{_TH} ?\}}|\^? ?{_TH})")
_BARE_ORDINAL = compile_quick_pattern(r"\A(\d{1,20})\s?(?:st|nd|rd|th)(?![\w^])")
# What stands around an answer and states nothing.
_BEFORE = compile_quick_pattern(
    r"\A(?:\s|:|\uff1a|=(?!=)>?|->|~|\\[ ,;:!]|\\q?quad(?![a-zA-Z])|\\(?:therefore|implies|Rightarrow|Longrightarrow"
    r"|Leftrightarrow|Longleftrightarrow|leadsto|iff|rightarrow|longrightarrow|to"
    r"|hence)(?![a-zA-Z])){1,20}"
)
_BEHIND = compile_quick_pattern(
    r"(?<=\S)(?:\s|~|\\[ ,;:!]|\\q?quad(?![a-zA-Z])|\\(?:checkmark|blacksquare|square|Box|qed|qedsymbol|notag"
    r"|nonumber|hfill)(?![a-zA-Z])"
    r"|\\text ?\{ ?(?:\\checkmark|\.) ?\}|\\(?:tag\*?|label) ?\{[^{}]{0,40}\}|\\\\|\\\Z|\{\}){1,20}\Z"
)
_EMPTY_BRACES = compile_quick_pattern(
    r"(?<![_^}])(?<!\\[a-zA-Z])(?<!\\[a-zA-Z]{2})(?<!\\[a-zA-Z]{3})(?<![a-zA-Z]{4})(?:\{\})+"
)
_ONE_CELL = compile_full_match(
    r"\\begin ?\{array\} ?(?:\[[a-z]\])? ?\{[lcr|@{} ]{0,9}\}((?:[^&\\]|\\(?![\\a-z])|\\(?!begin|end)[a-z]+){1,400}?)"
    r"(?:\\\\ ?)?\\end ?\{array\}"
)


def _with_unit(command: Match) -> str:
    r"""Return ``\SI{5}{cm}`` as ``5\text{ cm}``."""
    number, unit = command.groups()
    unit = _SI_UNIT.sub(r"\\\1", unit).replace("~", " ").replace("\\", " ").replace(".", " ")
    return f"{number}\\text{{ {unit}}}"


def _chemical(formula: Match) -> str:
    r"""Return ``\ce{H2SO4}`` as ``H_2SO_4``, and the charge of ``\ce{Na+}`` as an exponent."""
    text = _ATOMS.sub(lambda count: f"_{{{count.group()}}}", formula.group(1)).replace("->", "\\rightarrow ")
    return _CHARGE.sub(lambda charge: f"^{{{charge.group(1)}}}", text)


_DOLLAR_RULES = rules(
    ("$", r"\\(?:text|mathrm) ?\{ ?(?:US ?)?\\?\$ ?\}", r"\\$"),
    ("$", r"\\text ?\{ ?\\\$ ?(\d[\d.,]{0,20}) ?\}", r"\\$\1"),
    ("U", r"(?:US|U\.S\.|\\(?:text|mathrm) ?\{ ?US ?\}) ?(?=\\?\$)|(?<=\$) ?(?:US|U\.S\.)(?= ?\d)", ""),
    ("$", r"\A(-?)\$(?= ?-?\d[^$]{0,40}\Z)", r"\1\\$"),  # one that is not closed is money
    ("$", r"(?<!\\)\$", ""),
    ("\\$", r"\\\$ ?\{(-?\d[\d.,]{0,20})\}", r"\\$\1"),
    ("\\$", r"\A(-?\d[\d.,]{0,20})(?: |\\,)?\\\$\Z", r"\\$\1"),
)
_TEX_RULES = rules(  # of texts with commands
    ("color", r"\\(?:text)?color ?\{[a-zA-Z]{1,20}\}|\\colorbox ?\{[a-zA-Z]{1,20}\}", ""),
    ("\\over", r"\{([^{}\\]{1,50})\\over(?![a-zA-Z])([^{}]{1,50})\}", r"\\frac{\1}{\2}"),
    ("\\over", r"\A([^{}\\]{1,50})\\over(?![a-zA-Z])([^{}]{1,50})\Z", r"\\frac{\1}{\2}"),
    ("\\ce", r"\\ce ?\{((?:[^{}]|\{[^{}]{0,9}\}){1,200})\}", _chemical),
    ("\\choose", r"\{([^{}\\]{1,50})\\choose(?![a-zA-Z])([^{}]{1,50})\}", r"\\binom{\1}{\2}"),
    ("{", r"\\(?:SI|qty) ?\{([^{}]{1,40})\} ?\{((?:[^{}]|\{[^{}]{0,9}\}){1,60})\}", _with_unit),
    ("[", r"\\unit ?\[([^][]{1,40})\] ?\{((?:[^{}]|\{[^{}]{0,9}\}){1,60})\}", _with_unit),
    ("{", r"(?<=[\d}])((?:\s|\\,|~)?)\\(?:si|unit) ?\{((?:[^{}]|\{[^{}]{0,9}\}){1,60})\}", _with_unit),
    ("{", r"\\(?:num|ang) ?\{([^{}]{1,40})\}", r"\1"),
    ("\\rm", r"\{ ?\\rm ?([^{}\\]{1,40})\}", r"\\text{ \1}"),
    ("space", r"\\[hv]space\*? ?\{[^{}]{0,40}\}", " "),
    ("phantom", r"\\[hv]?phantom\*? ?\{[^{}]{0,40}\}", " "),
    ("\\not", r"\\not ?=", r"\\neq "),
    ("\\not", r"\\not ?\\in(?![a-zA-Z])", r"\\notin "),
    ("_{", r"_\{(\d{1,3})\}(?! ?\d)", r"_\1"),
    ("%", r"\\text ?\{ ?\\% ?\}", r"\\%"),
    ("prime", r"(?<=\d) ?\^ ?(?:\\prime(?![a-zA-Z])|\{ ?\\prime ?\})", "'"),
    ("prime", r"(?<=\d) ?\^ ?\{ ?\\prime ?\\prime ?\}", "''"),
    ("\\\\", r"\\\\ ?\[\d{1,2}(?:\.\d{1,2})? ?[a-z]{2}\]", r"\\\\"),  # the distance to the next row
)  # fmt: skip


def normalize(answer: str) -> str:
    r"""Return one spelling for answers that differ in typography alone; the value never changes.

    Unified are spacing, sizing, commands and signs that mean the same, upright letters, ``$…$``, thousands separators,
    decimal commas in braces, a final full stop, ``3e8``, ``12^{\text{th}}``, repeating decimals, a list of one answer,
    as files have it (``["34"]``), and what stands around an answer and states nothing, such as ``\therefore``.

    >>> [normalize(text) for text in (r"\dfrac12", "1{,}000.", r"\text{ Evelyn }", "3e8", r"12^{\text{th}}")]
    ['\\frac12', '1000', 'Evelyn', '3 \\times 10^{8}', '12']
    >>> normalize(r"0.1\overline{6}"), normalize(r"\therefore 5\ "), normalize(r"\mathbf{\frac12}"), normalize("3{,}5")
    ('\\frac{15}{90}', '5', '\\frac12', '3.5')
    """
    if _NUMBER(answer):
        return answer
    text = answer.strip()
    if "\\" in text and (content := _unwrapped(text)) is not None:
        return normalize(content)
    if "$" in text:
        text = rewrite(text, _DOLLAR_RULES).strip()
    if marked := _MARKED(text):
        text = next(filter(None, marked.groups()))
    text = to_latex(text).replace("**", "^")
    if "\\" in text:
        text = rewrite(text, _TEX_RULES)
    text = _BEHIND.sub("", _BEFORE.sub("", text))
    if "\\" in text or "~" in text:
        text = _COMMAND.sub(
            lambda command: _COMMANDS.get(command.group().rstrip("."), command.group()), _GROUP_SIGNS.sub("", text)
        )
        if (content := _unwrapped(text.strip())) is not None:
            return normalize(content)
    text = text.replace("{:}", ":")
    if "{,}" in text:
        text = _BRACED_NUMBER.sub(_with_decimal_comma, text).replace("{,}", ",")
    if "{}" in text and "C" not in text:
        text = _EMPTY_BRACES.sub("", text)
    text = _BARE_ORDINAL.sub(r"\1", text)
    if text.count(".") > 1:
        text = _POINTED_THOUSANDS.sub(lambda number: number.group().replace(".", ""), text)
    if "\\" in text:
        text = _UPRIGHT.sub(_upright, _ORDINAL.sub("", text))
        if "\\underline" in text or "\\math" in text:
            text = _UPRIGHT.sub(_upright, text)
        if cell := _ONE_CELL(text.strip()):
            text = cell.group(1)
    text = _BLANK.sub(" ", text).strip()
    if (whole := TEXT.fullmatch(text)) and _is_plain(whole.group(1)):
        text = _BARE_ORDINAL.sub(r"\1", whole.group(1).strip())
    if "\\overline" in text or "\\bar" in text or "\\dot" in text:
        text = _REPEATING.sub(_as_fraction, text)
    text = _FULL_STOP.sub("", text)
    if item := _ONLY_ITEM(text):
        return normalize((item.group(1) or item.group(2) or item.group(3)).replace("\\\\", "\\"))
    if _THOUSANDS(text):
        text = text.replace(",", "")
    elif "," in text:
        text = _ROUND_THOUSANDS.sub(lambda number: number.group().replace(",", ""), text)
    if "C" in text:
        text = _COMBINATIONS.sub(_binomial, text)
    text = _SCIENTIFIC.sub(_power_of_ten, text)
    if money := _DOLLARS(text):
        text = f"{money.group(1) or money.group(2)}{money.group(3).replace(',', '')}\\text{{ dollars}}"
    return "\\emptyset" if text.replace(" ", "") == "\\{\\}" else text


def _unwrapped(text: str) -> str | None:
    r"""Return the content of a box or the like around the whole answer; None if it is one of letters alone."""
    if not (command := _WRAPPED.match(text)) or len(text) > LONGEST_WRAPPED:
        return None
    rest = text[command.end() :].rstrip(" .")
    content = braced(rest)
    if content is None or len(content) + 2 != len(rest):
        return None
    if command.group().startswith(("\\mbox", "\\text", "\\hbox")) and "bf" not in command.group():
        return content if content[:1] == content[-1:] == "$" and content.count("$") == 2 else None
    is_box = BOX.match(text) is not None
    return content if is_box or any(sign in content for sign in "\\0123456789") else None


def _is_plain(content: str) -> bool:
    r"""Return whether the content of ``\text`` may lose it, as a list or joined digits may not."""
    return not any(sign in content for sign in ",;-/|&") or content.strip().lstrip("-").replace(".", "").isdigit()


def _with_decimal_comma(number: Match) -> str:
    """Return a number with ``{,}``: between groups of three digits it is a separator, otherwise a decimal comma.

    >>> [_BRACED_NUMBER.sub(_with_decimal_comma, text) for text in ("1{,}000", "3{,}5", "1.234{,}5", "0{,}125")]
    ['1000', '3.5', '1234.5', '0.125']
    """
    text = number.group()
    if _BRACED_THOUSANDS(text):
        return text.replace("{,}", "")
    if text.count("{,}") == 1 and "." not in text.partition("{,}")[2]:
        return text.replace(".", "").replace("{,}", ".")
    return text


def _power_of_ten(number: Match) -> str:
    """Return ``3e8`` as a power of ten, and ``2e-1`` as it stands, because it may be twice e, less 1."""
    factor, power = number.groups()
    is_product = number.end() == len(number.string) and factor.lstrip("+-") != "1" and "." not in factor
    if is_product and power[0] in "+-" and len(power) == 2 and power[1] in "123":
        return number.group()
    return f"{factor} \\times 10^{{{int(power)}}}"


def _upright(text: Match) -> str:
    r"""Write upright letters and function names as such, and other words as ``\text{…}``."""
    content, script = _BRACED_POWER.sub(r"^\1", text.group(1)), text.group(2) or ""
    name = content.strip()
    if text.group().startswith(("\\mathbf", "\\boldsymbol", "\\underline")):
        return text.group() if name.isalpha() or (name.startswith("\\") and name[1:].isalpha()) else name + script
    if name in _NAMES and (name not in _NAMES_OF_UNITS or text.group().startswith("\\operatorname")):
        return f"\\{name} {script}"
    if content in ("e", "i", "d", "E", "P") and not text.group().startswith("\\text{"):
        return f" {content}{script}"
    if content == "C" and script:
        return "C" + script.strip()
    return f"\\text{{{content}}}{script}" if name else " " + script


def _binomial(symbol: Match) -> str:
    r"""Return ``C_{10}^{3}`` as ``\binom{10}{3}``, unless it may be a constant with an exponent, as in ``C_1^2``."""
    groups = [group for group in symbol.groups() if group is not None]
    upper_first = symbol.group(3) is not None
    under, over = (groups[0], groups[1]) if upper_first else (groups[1], groups[0])
    if over.isdigit() != under.isdigit() and not (over.isalpha() or under.isalpha()):
        return symbol.group()
    if over.isdigit() and (int(over) < 3 or (under.isdigit() and int(over) < int(under))):
        return symbol.group()
    return f"\\binom{{{over}}}{{{under}}}"


def _as_fraction(number: Match) -> str:
    whole, start, *periods = number.groups(default="")
    period = "".join(periods)
    over = int(f"{whole}{start}{period}") - int(f"{whole}{start}" or "0")
    return f"\\frac{{{over}}}{{{'9' * len(period)}{'0' * len(start)}}}"


def same_string(first: str, second: str) -> bool:
    r"""Return whether two answers are equal after `normalize`, except for ``\text``, the case of words, and blanks.

    Blanks between digits count, because ``1 1/2`` is not ``11/2``.

    >>> same_string(r"\text{Ellipse}", "ellipse"), same_string("AB", "ab"), same_string("1 1/2", "11/2")
    (True, False, False)
    """
    if first == second:
        return True
    one, other = _plain(first), _plain(second)
    if _INNER_BLANK.sub("", one) == _INNER_BLANK.sub("", other):
        return True
    return one.casefold() == other.casefold() and _are_words(one) and _are_words(other)


def _are_words(text: str) -> bool:
    words = text.split()
    return text.replace(" ", "").isalpha() and all(len(word) < WORD < len(text) or is_word(word) for word in words)


def _plain(text: str) -> str:
    spoken = TEXT.sub(lambda words: "_".join(words.group(1).split()), normalize(text))  # because m s is no ms
    return _BLANK.sub(" ", spoken).strip()
