r"""Read the arguments of commands, and mixed numbers such as ``1\frac12``."""

from core.text.patterns import compile_full_match
from grading.expressions.answer_tokens import Unread, closing, strip

NO_ARGUMENT = frozenset("+-*/^_!|,&)]}")
_INTEGER = compile_full_match(r"\d+")
_LONGEST = 300  # digits of a numerator or denominator


def argument(parts: list[str], start: int) -> tuple[list[str], int]:
    """Return the argument of a command that starts at ``start``, and its end; of a number without braces one digit."""
    while start < len(parts) and parts[start].isspace():
        start += 1
    if start >= len(parts) or parts[start] in NO_ARGUMENT:
        raise Unread("an argument is missing")
    part = parts[start]
    if part == "{":
        end = closing(parts, start)
        return strip(parts[start + 1 : end]), end + 1
    if _INTEGER(part) and len(part) > 1:
        parts[start : start + 1] = [part[0], part[1:]]
        return [part[0]], start + 1
    end = start + 1
    if part == "\\sqrt" and parts[end : end + 1] == ["["]:
        end = closing(parts, end) + 1
    for _ in range({"\\frac": 2, "\\binom": 2, "\\sqrt": 1}.get(part, 0)):
        _, end = argument(parts, end)
    return parts[start:end], end


def with_mixed_numbers(parts: list[str]) -> list[str]:
    """Return ``1 1/2`` and ``1\\frac12`` as fractions; Unread for other numbers that stand side by side."""
    result: list[str] = []
    position = 0
    while position < len(parts):
        part = parts[position]
        after = position + 1 + (position + 1 < len(parts) and parts[position + 1].isspace())
        is_script = result[-1:] in (["^"], ["_"])
        fraction = _fraction(parts, after) if _INTEGER(part) and not is_script else None
        if fraction:
            over, under, position = fraction
            if not 0 < over < under:
                raise Unread("a number before a fraction")
            result += ["{", "\\frac", "{", str(int(part) * under + over), "}", "{", str(under), "}", "}"]
            continue
        if part[0].isdigit() and not is_script and after < len(parts) and parts[after][0] in "0123456789.":
            raise Unread("numbers side by side")
        result.append(part)
        position += 1
    return result


def _fraction(parts: list[str], start: int) -> tuple[int, int, int] | None:
    """Return numerator, denominator and end of a fraction of integers that starts at ``start``."""
    if parts[start : start + 1] == ["\\frac"]:
        numbers, end = list[int](), start + 1
        for _ in range(2):
            side, end = argument(parts, end)
            if len(side) != 1 or not _INTEGER(side[0]) or len(side[0]) > _LONGEST:
                return None
            numbers.append(int(side[0]))
        return None if parts[end : end + 1] in (["^"], ["!"]) else (numbers[0], numbers[1], end)
    over, slash, under = (*parts[start : start + 3], "", "", "")[:3]
    if not (_INTEGER(over) and slash == "/" and _INTEGER(under) and parts[start - 1].isspace()):
        return None
    following = "".join(parts[start + 3 : start + 4])
    if max(len(over), len(under)) > _LONGEST or following.startswith(tuple("^!/_(\\")) or following.isalpha():
        raise Unread("a number before a fraction")
    return int(over), int(under), start + 3
