r"""Rewrite Unicode in answers as LaTeX: ``√2``, ``x²``, ``½``, ``90°``, full-width digits, Chinese words."""

import unicodedata

from core.text.patterns import Match
from grading.answers.rewriting import rewrite, rules

_COMMANDS = {  # commands, and the characters that stand for them
    "^\\circ ": "\u00b0\u00ba\u02da", "^\\circ\\text{C}": "\u2103", "^\\circ\\text{F}": "\u2109",
    "\\times ": "\u00d7", "\\div ": "\u00f7", "\\cdot ": "\u00b7\u22c5\u2219", "*": "\u2217", "\\pm ": "\u00b1",
    "\\mp ": "\u2213", "\\infty ": "\u221e", "\\le ": "\u2264\u2a7d\u2266", "\\ge ": "\u2265\u2a7e\u2267",
    "\\neq ": "\u2260", "\\approx ": "\u2248", "\\equiv ": "\u2261", "\\cup ": "\u222a", "\\cap ": "\u2229",
    "\\in ": "\u2208", "\\notin ": "\u2209", "\\emptyset ": "\u2205", "\\setminus ": "\u2216", "\\mid ": "\u2223",
    "\\angle ": "\u2220", "\\triangle ": "\u25b3", "\\Delta ": "\u2206", "\\forall ": "\u2200",
    "\\mathbb{N}": "\u2115", "\\mathbb{Z}": "\u2124", "\\mathbb{Q}": "\u211a", "\\mathbb{R}": "\u211d",
    "\\mathbb{C}": "\u2102", "\\partial ": "\u2202", "\\lfloor ": "\u230a", "\\rfloor ": "\u230b",
    "\\lceil ": "\u2308", "\\rceil ": "\u2309", "\\langle ": "\u27e8", "\\rangle ": "\u27e9", "\\lor ": "\u2228",
    "\\land ": "\u2227", "\\ldots ": "\u2026\u22ef", "\\therefore ": "\u2234", "\\Rightarrow ": "\u21d2",
    "\\rightarrow ": "\u2192", "\\Leftrightarrow ": "\u21d4", "\\checkmark ": "\u2713\u2714\u2705\u2611",
    "\\blacksquare ": "\u220e\u25a0", "\\square ": "\u25a1", "\\ell ": "\u2113",
    "'": "\u2032\u2019", "''": "\u2033\u201d", "-": "\u2212\u2010\u2011\u2012\u2013\u2014", "/": "\u2044\u2215",
    ":": "\u2236", ",": "\u3001", ".": "\u3002", "~": "\u00a0", "\\,": "\u2009\u202f", " ": "\u3000",
    "\\text{ euros}": "\u20ac", "\\text{ pounds}": "\u00a3", "\\text{ \u00a5}": "\u00a5\uffe5",
    "\\text{ cents}": "\u00a2", "\\text{ rupees}": "\u20b9\u20a8", "\\text{ won}": "\u20a9",
    "\\text{ rubles}": "\u20bd", "angstrom": "\u00c5\u212b", "": "\u200b\u200c\u200d\u2060\ufeff\u2061\u2062\ufe0f",
}  # fmt: skip
_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "εϵ", "zeta": "ζ", "eta": "η", "theta": "θϑ",
    "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ\u00b5", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρϱ",
    "sigma": "σς", "tau": "τ", "upsilon": "υ", "phi": "φϕ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ",
    "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ",
    "Omega": "Ω",
}  # fmt: skip
_CHINESE = {
    "或者": "\\text{ or }", "或": "\\text{ or }", "以及": "\\text{ and }", "和": "\\text{ and }",
    "与": "\\text{ and }", "且": "\\text{ and }", "及": "\\text{ and }", "为整数": "\\text{ is an integer}",
    "是整数": "\\text{ is an integer}",
    **dict.fromkeys(("无解", "无实数解", "无实根"), "\\text{no solution}"),
    "空集": "\\emptyset ", "无穷": "\\infty ",
    "对于": "\\text{ for }", "任意": "\\text{ any }", "所有": "\\text{ all }", "实数": "\\text{ real }",
    "平方千米": "\\text{ km}^2", "平方公里": "\\text{ km}^2", "平方厘米": "\\text{ cm}^2", "平方分米": "\\text{ dm}^2",
    "平方毫米": "\\text{ mm}^2", "平方米": "\\text{ m}^2", "立方厘米": "\\text{ cm}^3", "立方分米": "\\text{ dm}^3",
    "立方米": "\\text{ m}^3", "千米": "\\text{ km}", "公里": "\\text{ km}", "厘米": "\\text{ cm}",
    "分米": "\\text{ dm}", "毫米": "\\text{ mm}", "千克": "\\text{ kg}", "公斤": "\\text{ kg}", "毫克": "\\text{ mg}",
    "毫升": "\\text{ mL}", "公顷": "\\text{ ha}", "小时": "\\text{ h}", "分钟": "\\text{ min}", "米": "\\text{ m}",
    "克": "\\text{ g}", "升": "\\text{ L}", "吨": "\\text{ tons}", "秒钟": "\\text{ s}", "秒": "\\text{ s}",
    "千米/时": "\\text{ km/h}", "公里/时": "\\text{ km/h}", "天": "\\text{ days}",
    "年": "\\text{ years}", "美元": "\\text{ dollars}", "欧元": "\\text{ euros}",
    "人民币": "\\text{ yuan}",
    "日元": "\\text{ yen}", "英镑": "\\text{ pounds}", "卢比": "\\text{ rupees}",
    "元": "\\text{ yuan}", "度": "^\\circ ", "摄氏": "", "个百分点": "\\text{ points}",
}  # fmt: skip
_FULL_WIDTH = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_SIGNS = str.maketrans(
    {
        **_FULL_WIDTH,
        **{character: f"\\{name} " for name, characters in _GREEK.items() for character in characters},
        **{character: command for command, characters in _COMMANDS.items() for character in characters},
    }
)
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱ"
_LOWERED = "₀₁₂₃₄₅₆₇₈₉"
_PLAIN = str.maketrans(_RAISED + _LOWERED, "0123456789+-ni0123456789")
_DEGREE = {"√": "", "∛": "[3]", "∜": "[4]"}


def _raised(run: Match) -> str:
    """Read an exponent; one digit without braces, which would end a unit's text."""
    exponent = run.group().translate(_PLAIN)
    return f"^{exponent}" if len(exponent.lstrip("-")) == 1 else f"^{{{exponent}}}"


def _fraction(sign: Match) -> str:
    over, _, under = unicodedata.normalize("NFKC", sign.group()).partition("⁄")
    return f"\\frac{{{over}}}{{{under}}}"


def _root(root: Match) -> str:
    return f"\\sqrt{_DEGREE[root.group(1)]}" + (f"{{{root.group(2)}}}" * bool(root.group(2)))


_BEFORE = rules(
    # A text with signs that have a reading of their own: currencies, degrees, quotes, Chinese words.
    ("\\", r"\\(?:text|mathrm|mbox) ?\{([^{}]{0,20}[¢-¥°₨-₽℃一-鿿￥][^{}]{0,20})\}", r" \1 "),
    ("", r"[¼-¾⅐-⅞]", _fraction),
    ("", r"(?<=\d)\s?[–—～]\s?(?=\d)", " to "),
    ("", f"[{_RAISED}]+", _raised),
    ("", f"[{_LOWERED}]+", lambda run: f"_{{{run.group().translate(_PLAIN)}}}"),
)
_BEHIND = rules(
    ("年", r"(\d{4})\s?年\s?(\d{1,2})\s?月\s?(\d{1,2})\s?[日号]", r"\1-\2-\3"),
    ("", r"[㍱-㏟]", lambda sign: f"\\text{{ {unicodedata.normalize('NFKC', sign.group())}}}"),
    ("分", r"(?<=\d)\s?分(?=\s?\d{1,2}\s?秒)|(?<=时)(\d{1,2})\s?分(?!钟)", r"\1分钟"),
    ("", "|".join(sorted(_CHINESE, key=len, reverse=True)), lambda word: _CHINESE[word.group()]),
    ("", r"(?<=[\d})])\s?(?<!\\text\{)([一-鿿]{1,6})(?=\Z|[^}一-鿿])", r"\\text{ \1}"),
    ("", r"([√∛∜])\s?(\d{1,40}(?:\.\d{1,40})?|[a-zA-Z]|\\pi ?|(?=[({]))", _root),
)


def to_latex(text: str) -> str:
    r"""Return ``text`` with its signs as LaTeX; characters that have no reading stay.

    >>> to_latex("√2"), to_latex("x²"), to_latex("1½"), to_latex("90°"), to_latex("（3，4）"), to_latex("15分钟")
    ('\\sqrt{2}', 'x^2', '1\\frac{1}{2}', '90^\\circ ', '(3,4)', '15\\text{ min}')
    """
    return text if text.isascii() else rewrite(rewrite(text, _BEFORE).translate(_SIGNS), _BEHIND)
