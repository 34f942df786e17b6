"""A filter of your own: solutions that take two steps at once."""

OPERATORS = "+-*"


def skips_steps(trace):
    """A line of the solution does more than one operation."""
    for line in trace.target.splitlines():
        left = line.partition("=")[0].lstrip("-")
        if sum(left.count(operator) for operator in OPERATORS) > 1:
            return f"in {line!r}"
    return None
