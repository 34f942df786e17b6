"""Rewrite Unicode in answers as LaTeX: ``√2``, ``x²``, ``½``, ``90°``, full-width digits, Greek letters."""

import unicodedata

from core.text.patterns import Match, compile_quick_pattern

_COMMANDS = {
    "\u00b0": "^\\circ ",
    "\u00d7": "\\times ",
    "\u00f7": "\\div ",
    "\u00b7": "\\cdot ",
    "\u22c5": "\\cdot ",
    "\u2219": "\\cdot ",
    "\u2217": "*",
    "\u00b1": "\\pm ",
    "\u2213": "\\mp ",
    "\u221e": "\\infty ",
    "\u2264": "\\le ",
    "\u2a7d": "\\le ",
    "\u2265": "\\ge ",
    "\u2a7e": "\\ge ",
    "\u2260": "\\neq ",
    "\u2248": "\\approx ",
    "\u2261": "\\equiv ",
    "\u222a": "\\cup ",
    "\u2229": "\\cap ",
    "\u2208": "\\in ",
    "\u2209": "\\notin ",
    "\u2205": "\\emptyset ",
    "\u2216": "\\setminus ",
    "\u2223": "\\mid ",
    "\u2220": "\\angle ",
    "\u25b3": "\\triangle ",
    "\u2206": "\\Delta ",
    "\u2115": "\\mathbb{N}",
    "\u2124": "\\mathbb{Z}",
    "\u211a": "\\mathbb{Q}",
    "\u211d": "\\mathbb{R}",
    "\u2102": "\\mathbb{C}",
    "\u222b": "\\int ",
    "\u2211": "\\sum ",
    "\u220f": "\\prod ",
    "\u2202": "\\partial ",
    "\u230a": "\\lfloor ",
    "\u230b": "\\rfloor ",
    "\u2308": "\\lceil ",
    "\u2309": "\\rceil ",
    "\u27e8": "\\langle ",
    "\u27e9": "\\rangle ",
    "\u2228": "\\lor ",
    "\u2227": "\\land ",
    "\u2026": "\\ldots ",
    "\u22ef": "\\ldots ",
    "\u2032": "'",
    "\u2033": "''",
    "\u2019": "'",
    "\u2212": "-",
    "\u2010": "-",
    "\u2011": "-",
    "\u2012": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u2044": "/",
    "\u2215": "/",
    "\u3001": ",",
    "\u3002": ".",
    "\u00a0": "~",
    "\u2009": "\\,",
    "\u202f": "\\,",
    "\u3000": " ",
    "\u20ac": "\\text{ euros}",
    "\u00a3": "\\text{ pounds}",
    "\u00a5": "\\text{ yen}",
    "\uffe5": "\\text{ yen}",
    "\u00a2": "\\text{ cents}",
    "\u00c5": "angstrom",
    "\u212b": "angstrom",
    **dict.fromkeys(("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u2061", "\u2062"), ""),
}
_GREEK = {
    character: f"\\{name} "
    for name, characters in {
        "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "εϵ", "zeta": "ζ", "eta": "η", "theta": "θϑ",
        "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ\u00b5", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρϱ",
        "sigma": "σς", "tau": "τ", "upsilon": "υ", "phi": "φϕ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ",
        "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ",
        "Omega": "Ω",
    }.items()
    for character in characters
}  # fmt: skip
_FULL_WIDTH = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_SIGNS = str.maketrans({**_FULL_WIDTH, **_GREEK, **_COMMANDS})
_RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b\u207f\u2071"
_LOWERED = "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089"
_RAISED_RUN = compile_quick_pattern(f"[{_RAISED}]+")
_LOWERED_RUN = compile_quick_pattern(f"[{_LOWERED}]+")
_PLAIN = str.maketrans(_RAISED + _LOWERED, "0123456789+-ni0123456789")
_ROOT = compile_quick_pattern(r"([\u221a\u221b\u221c])\s?(\d{1,40}(?:\.\d{1,40})?|[a-zA-Z]|\\pi ?|(?=[({]))")
_DEGREE = {"\u221a": "", "\u221b": "[3]", "\u221c": "[4]"}
_RANGE = compile_quick_pattern("(?<=\\d)\\u2013(?=\\d)")
_FRACTION = compile_quick_pattern("[\u00bc-\u00be\u2150-\u215e]")


def to_latex(text: str) -> str:
    r"""Return ``text`` with its signs as LaTeX; characters that have no reading stay.

    >>> to_latex("√2"), to_latex("x²"), to_latex("1½"), to_latex("90°"), to_latex("（3，4）")
    ('\\sqrt{2}', 'x^2', '1\\frac{1}{2}', '90^\\circ ', '(3,4)')
    """
    if text.isascii():
        return text
    text = _RANGE.sub("\\\\text{ to }", _FRACTION.sub(_fraction, text))
    text = _RAISED_RUN.sub(_raised, text)
    text = _LOWERED_RUN.sub(lambda run: f"_{{{run.group().translate(_PLAIN)}}}", text).translate(_SIGNS)
    return _ROOT.sub(
        lambda root: f"\\sqrt{_DEGREE[root.group(1)]}" + (f"{{{root.group(2)}}}" * bool(root.group(2))), text
    )


def _raised(run: Match) -> str:
    """Read an exponent; one digit without braces, which would end a unit's text."""
    exponent = run.group().translate(_PLAIN)
    return f"^{exponent}" if len(exponent.lstrip("-")) == 1 else f"^{{{exponent}}}"


def _fraction(sign: Match) -> str:
    over, _, under = unicodedata.normalize("NFKC", sign.group()).partition("\u2044")
    return f"\\frac{{{over}}}{{{under}}}"
