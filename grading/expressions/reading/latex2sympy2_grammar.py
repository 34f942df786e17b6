"""Read a formula by the grammar of latex2sympy2, made strict: numbers are exact, and nothing is left out."""

from functools import lru_cache
from typing import Any

import sympy

from grading.expressions.answer_tokens import Unread


def by_latex2sympy2(text: str) -> Any:
    """Return what latex2sympy2 makes of a formula, an expression or something else; Unread if it reads nothing."""
    try:
        return _latex2sympy2().parse(text)
    except RecursionError:
        raise Unread("nested too deeply") from None
    except Exception as error:  # its grammar raises plain Exceptions, and sympy whatever an operand leads to
        raise Unread(str(error).partition("\n")[0] or type(error).__name__) from None


@lru_cache(maxsize=1)
def _latex2sympy2() -> Any:
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig, _Latex2Sympy

    class Reader(_Latex2Sympy):
        def parse_number(self, text: str) -> Any:
            return sympy.Rational(text)

        def handle_gcd_lcm(self, f: str, args: Any) -> Any:
            numbers = [arg.doit() for arg in args]
            if all(number.is_Integer for number in numbers):
                return getattr(sympy, f)(numbers)
            return sympy.Function(f)(*sorted(numbers, key=str))  # sympy's is that of polynomials: gcd(n, 6) = 1

        def convert_postfix_list(self, arr: Any, i: int = 0) -> Any:
            factors = [self.convert_postfix(part) for part in arr[i:]]
            if not all(isinstance(factor, sympy.Expr | sympy.MatrixBase) for factor in factors):
                raise Unread("a factor is no expression")
            if any(isinstance(factor, sympy.MatrixBase) for factor in factors):
                return sympy.MatMul(*factors, evaluate=False).doit()
            return factors[0] if len(factors) == 1 else sympy.Mul(*factors, evaluate=False)

    return Reader(is_real=None, config=ConversionConfig(interpret_as_mixed_fractions=False, lowercase_symbols=False))
