r"""Read congruences, residues and remainders: ``n \equiv 5 \pmod 9``, ``5 \pmod 9``, ``17 \bmod 5``."""

from grading.expressions.answer_tokens import TEXT, Unread, strip
from grading.expressions.forms import Congruence, Value
from grading.expressions.reading.terms import read_term

_MODULO = ("\\pmod", "\\bmod", "\\mod")


def modulus_in(parts: list[str]) -> int:
    r"""Return where ``\pmod{m}``, ``\pmod m`` or ``(mod m)`` starts in the tokens; 0 if there is none."""
    for position, part in enumerate(parts):
        if part in _MODULO or (part == "(" and _is_modulo(strip(parts[position + 1 :]))):
            return position
    return 0


def _is_modulo(parts: list[str]) -> bool:
    return parts[0] in _MODULO or "".join(parts[:3]) == "mod" or TEXT.sub(r"\1", parts[0]).strip() == "mod"


def read_residue(parts: list[str], position: int) -> Congruence | Value:
    r"""Read ``5 \pmod 9``, or ``17 \bmod 5``, which is 2."""
    if parts[-1] == ")" or parts[position] == "\\pmod":
        return read_congruence([], parts, position)
    value, modulus = read_term(parts[:position]).doit(), read_term(parts[position + 1 :]).doit()
    if not (value.is_Integer and modulus.is_Integer and modulus):
        raise Unread("the remainder of a formula")
    return Value(value % modulus)


def read_congruence(left: list[str], right: list[str], position: int) -> Congruence:
    """Read a congruence, of whose right side the modulus starts at ``position``."""
    rest = strip(right[position:])
    if rest[0] == "(":
        if rest[-1] != ")":
            raise Unread("words behind a modulus")
        rest = strip(rest[1:-1])
    rest = strip(rest[3 if "".join(rest[:3]) == "mod" else 1 :])
    return Congruence(read_term(left) if left else None, read_term(right[:position]), read_term(rest))
