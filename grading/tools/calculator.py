"""Arithmetic of numbers, exactly where it is of integers."""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.model.calls import Call
from grading.tools.tool import Context, Exchange, Tool, ToolError, function_schema

LONGEST, DIGITS = 200, 300  # characters of an expression, digits of a number
OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class Calculator(Tool):
    """Computes an arithmetic expression, such as (47 * 86 - 195) / 2."""

    def schema(self) -> dict[str, Any]:
        return function_schema(self, expression="numbers, + - * / // % ** and parentheses")

    def run(self, call: Call, history: Sequence[Exchange], context: Context) -> str:
        expression = call.arguments.get("expression")
        if not isinstance(expression, str) or len(expression) > LONGEST:
            raise ToolError(f"expected an expression of at most {LONGEST} characters")
        try:
            value = evaluate(ast.parse(expression.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ToolError(f"not an arithmetic expression: {expression!r:.60}") from None
        except ArithmeticError as error:
            raise ToolError(str(error)) from None
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def evaluate(node: ast.expr) -> int | float:
    """Return the value of an expression.

    >>> evaluate(ast.parse("2 ** 10 - 7 // 2", mode="eval").body)
    1021

    Raises:
        ValueError: it has another part than numbers and their operators.
        ArithmeticError: it has no value, or one that is too large.
    """
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            value = evaluate(node.operand)
            return -value if isinstance(node.op, ast.USub) else value
        case ast.BinOp() if type(node.op) in OPERATORS:
            left, right = evaluate(node.left), evaluate(node.right)
            if isinstance(node.op, ast.Pow) and (abs(right) > DIGITS or abs(left) > 10**DIGITS):
                raise OverflowError("the result is too large")
            value = OPERATORS[type(node.op)](left, right)
            if isinstance(value, complex):
                raise ArithmeticError("the result is not a real number")
            if abs(value) > 10**DIGITS:
                raise OverflowError("the result is too large")
            return value
    raise ValueError("not an arithmetic expression")
