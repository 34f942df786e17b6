"""Tell whether a relation is worked out."""

from sympy import Abs

from grading.expressions.forms import Builder, Form, Group, Relation, Value
from grading.expressions.regions import variable_of

_OF_OTHERS = ("\\lim", "\\max", "\\min", "P(", "E(")  # names of values in which a variable is bound


def leaves_open(answer: Form, gold: Form) -> bool:
    """Return whether a relation that is the same as a solved gold answer is not solved for its variable itself."""
    return _is_solved(gold) and not _is_solved(answer)


def _is_solved(form: Form) -> bool:
    """Return whether each relation for one variable has it, or its absolute value, alone on a side."""
    if isinstance(form, Group):
        return all(map(_is_solved, form.items))
    if isinstance(form, Builder):
        return _is_solved(form.conditions)
    if not isinstance(form, Relation) or (variable := variable_of(form)) is None:
        return True
    if form.name and form.name.startswith(_OF_OTHERS):
        return True
    sides = [side.expression for side in form.sides if isinstance(side, Value)]
    with_variable = [side for side in sides if side.has(variable)]
    return len(with_variable) == 1 and with_variable[0] in (variable, Abs(variable))
