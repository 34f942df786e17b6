"""A number with a unit: its value lies within a tolerance of the gold answer's."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from core.text.patterns import compile_full_match, compile_quick_pattern
from grading.expressions.units import has_no_unit, split_scale, unit_name
from grading.verdict import UnfitGold
from grading.verifiers.verifier import Verifier, VerifierOptions

LONGEST = 1000  # characters of an answer
_DIGITS = r"(?:\d{1,3}(?:(?:,\d{3})+|(?: \d{3})+|(?:'\d{3})+)|\d{1,2}(?:,\d{2})+,\d{3}|\d+)"  # or 12,34,567
_NUMBER = compile_full_match(
    r"(?P<money>[$€£¥]?)\s?(?P<sign>[+-]?)\s?(?P<money2>[$€£¥]?)(?:(?P<whole>\d+) (?=\d+/\d))?"
    rf"(?P<value>{_DIGITS}(?:\.\d*)?|\.\d+)(?:/(?P<divisor>\d+))?"
    r"(?:[eE](?P<power>[+-]?\d{1,3})(?![\w])|\s?(?:\\times|\\cdot|[×·*x])\s?10\s?\^\s?\{?(?P<power2>[+-]?\d{1,3})\}?)?"
    r"\s?(?P<unit>(?:[^\W\d_]|[%‰°µΩ]).*)?"
)
_TEXT = compile_quick_pattern(r"\\(?:text|textrm|mathrm|mbox)\s?\{((?:[^{}]|\{[^{}]{0,20}\}){0,200})\}")
_NAME = compile_quick_pattern(r"\A(?:[a-zA-Z](?:_\{?\w{1,9}\}?)? ?(?:=|≈|\\approx) ?|(?:=|≈|\\approx) ?)")
_POWER = compile_quick_pattern(r"\A([+-]? ?)10 ?\^")
_FRACTION = compile_quick_pattern(r"\\[dt]?frac ?(?:\{(\d+)\}|(\d)) ?(?:\{(\d+)\}|(\d))")
_DEGREE = compile_quick_pattern(r"\^ ?(?:\{ ?\\circ ?\}|\\circ(?![a-zA-Z]))|\\degree(?![a-zA-Z])")
_SAME_SIGNS = str.maketrans({"−": "-", "–": "-", "μ": "µ", "²": "^2", "³": "^3"})
_NO_SEPARATORS = str.maketrans("", "", ", '")
_NO_BRACES = str.maketrans("", "", "{}")
_SPACES = compile_quick_pattern(r"\\[,;:! ]|~|\s")


class NumberOptions(VerifierOptions):
    """A value is right if it differs by no more than ``rel_tol`` of the gold value, or by no more than ``abs_tol``.

    ``unit``: "optional" (none, or the gold answer's), "required", or "ignored". ``units`` are factors of units
    that can stand for each other, as in ``{km: 1000, m: 1}``.
    """

    rel_tol: float = Field(1e-6, ge=0)
    abs_tol: float = Field(0.0, ge=0)
    unit: Literal["optional", "required", "ignored"] = "optional"
    units: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)


class Quantity(NamedTuple):
    """A value and its unit, which may be empty, with its words as they are written."""

    value: Fraction
    unit: str


class NumberVerifier(Verifier):
    """The answer is one number, which may have a unit."""

    Options = NumberOptions

    def expected(self, gold: str, fields: Mapping[str, Any]) -> Quantity:
        quantity = self._read(gold)
        if quantity is None:
            raise UnfitGold(f"{gold!r:.80} is no number")
        if self.options.units and self._in_base(quantity.unit) is None and self.options.unit != "ignored":
            raise UnfitGold(f"{gold!r:.80} has the unit {quantity.unit!r}; units has {', '.join(self.options.units)}")
        return quantity

    def compare(self, answer: str, expected: Quantity) -> tuple[bool, str]:
        stated = self._read(answer)
        if stated is None:
            return False, "the answer is no number"
        factor, problem = self._factor(stated.unit, expected.unit)
        difference = abs(stated.value * factor - expected.value)
        allowed = max(Fraction(self.options.abs_tol), Fraction(self.options.rel_tol) * abs(expected.value))
        within = difference <= allowed
        return within and not problem, problem or ("within" if within else "a different value")

    def _read(self, text: str) -> Quantity | None:
        """Return the one number that a text states; None behind which another number or a doubt stands."""
        quantity = read_quantity(text)
        if quantity and has_no_unit(quantity.unit) and self._in_base(quantity.unit) is None:
            return None
        return quantity

    def _in_base(self, unit: str) -> Fraction | None:
        """Return the factor of a unit, however it is spelled; None if the options have none."""
        factors = (factor for name, factor in self.options.units.items() if _is_same_unit(unit, name))
        return next(map(Fraction, factors), None)

    def _factor(self, unit: str, expected: str) -> tuple[Fraction, str]:
        """Return the factor from ``unit`` to the unit ``expected``, and what is wrong with the unit."""
        if self.options.unit == "ignored" and unit and unit != expected and unit_name(unit) is None:
            return Fraction(1), f"{unit!r} is no unit"
        is_optional = not unit and self.options.unit == "optional"
        if self.options.unit == "ignored" or is_optional or _is_same_unit(unit, expected):
            return Fraction(1), ""
        factor, expected_factor = self._in_base(unit), self._in_base(expected)
        if factor and expected_factor:
            return factor / expected_factor, ""
        return Fraction(1), f"the unit is {_spelling(unit)!r}, not {_spelling(expected)!r}"


def _spelling(unit: str) -> str:
    return "".join(_plain(unit).split())


def _plain(unit: str) -> str:
    return unit.translate(_SAME_SIGNS).translate(_NO_BRACES)


def _is_same_unit(one: str, other: str) -> bool:
    """Return whether two units are the same, such as ``kg`` and ``kilograms``, or ``m/s`` and ``m s^{-1}``."""
    if _spelling(one) == _spelling(other):
        return True
    name = unit_name(_plain(one))
    return name is not None and name == unit_name(_plain(other))


def read_quantity(text: str) -> Quantity | None:
    r"""Return the number that a text is, with its unit; None if it is none.

    >>> read_quantity(r"$1{,}500\text{ km/h}$")
    Quantity(value=Fraction(1500, 1), unit='km/h')
    >>> read_quantity("1/4 %"), read_quantity("a 5")
    (Quantity(value=Fraction(1, 4), unit='%'), None)
    """
    if len(text) > LONGEST:
        return None
    plain = _TEXT.sub(r" \1", text.replace("{,}", ",").replace("\\%", "%").replace("\\$", "$"))
    plain = plain.replace("\\mu", "µ").replace("µ ", "µ").translate(_SAME_SIGNS)
    plain = _FRACTION.sub(r" \1\2/\3\4 ", _DEGREE.sub("°", _SPACES.sub(" ", plain)))
    plain = " ".join(plain.split()).removesuffix(".")
    if plain.startswith("$") and plain.endswith("$"):
        plain = plain.strip("$ ")
    match = _NUMBER(_POWER.sub(r"\g<1>1×10^", _NAME.sub("", plain)))
    if match is None:
        return None
    parts = match.groupdict(default="")
    divisor = int(parts["divisor"] or 1)
    if divisor == 0:
        return None
    power = Fraction(10) ** int(parts["power"] or parts["power2"] or 0)
    value = int(parts["whole"] or 0) + Fraction(parts["value"].translate(_NO_SEPARATORS)) / divisor
    scale, unit = split_scale(parts["unit"])
    unit = parts["money"] + parts["money2"] + unit
    return Quantity(value * power * 10**scale * (-1 if parts["sign"] == "-" else 1), unit)
