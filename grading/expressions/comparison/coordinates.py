"""Give the values of several names an order: that of coordinates such as x, y, z or a, b."""

from collections.abc import Iterable, Sequence
from string import ascii_lowercase

from grading.expressions.forms import Form, Group, Relation, Value


def by_coordinates(form: Form, other: Form) -> Form:
    """Return ``(a,b) = (2,3)`` as ``a = 2, b = 3`` if the other form is such a list."""
    if not (isinstance(form, Relation) and form.signs == ("=",) and isinstance(other, Group) and names_in(other)):
        return form
    names, values = form.sides
    if not (isinstance(names, Group) and isinstance(values, Group) and names.kind == values.kind == "()"):
        return form
    pairs = [
        Relation(("=",), (name, value), str(name.expression))
        for name, value in zip(names.items, values.items, strict=False)
        if isinstance(name, Value)
    ]
    return Group("list", tuple(pairs)) if len(pairs) == len(names.items) == len(values.items) else form


def names_in(group: Group) -> set[str | None]:
    """Return the names that its relations give to their values, if there are several."""
    names = {item.name for item in group.items if isinstance(item, Relation)}
    return names if len(names) > 1 else set()


def by_name(group: Group) -> Sequence[Form]:
    """Return the items in the order of coordinates, if their names give them one."""
    named = {item.name or "": item for item in group.items if isinstance(item, Relation)}
    if len(named) < len(group.items) or not _are_coordinates(named):
        return group.items
    return [named[name] for name in sorted(named)]


def is_reordered(name: str) -> bool:
    """Return whether a name such as ``(y,x)`` or ``b:a`` lists coordinates in an order of its own."""
    names = name.strip("()").replace(":", ",").split(",")
    return _are_coordinates(names) and names != sorted(names)


def _are_coordinates(names: Iterable[str]) -> bool:
    return "".join(sorted(names)) in ascii_lowercase
