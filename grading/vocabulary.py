"""Names of functions, Greek letters and accents in formulas, what is a word, and when a decimal number is exact."""

from string import ascii_lowercase


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


ELEMENTARY = {  # functions of one argument, and sympy's names of them
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "arcsec": "asec", "arccsc": "acsc",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arsinh": "asinh", "arcosh": "acosh", "artanh": "atanh",
    "exp": "exp",
}  # fmt: skip
FUNCTIONS = frozenset((*ELEMENTARY, "log", "ln", "max", "min", "gcd", "lcm"))
SCHOOLS = {  # names of functions in other countries
    "tg": "tan", "ctg": "cot", "cotg": "cot", "cosec": "csc", "arctg": "arctan", "arcctg": "arccot",
    "arcsinh": "arsinh", "arccosh": "arcosh", "arctanh": "artanh", "sh": "sinh", "ch": "cosh", "th": "tanh",
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "arsh": "arsinh", "arch": "arcosh", "arth": "artanh",
}  # fmt: skip
GREEK = frozenset((
    "alpha", "beta", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Delta", "Theta", "Lambda", "Xi",
    "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega",
))  # fmt: skip
ACCENTS = frozenset((
    "overline", "bar", "hat", "vec", "mathbf", "mathcal", "boldsymbol", "overrightarrow", "tilde", "widetilde",
    "dot", "ddot",
))  # fmt: skip
WORD = 3  # letters that make a word; fewer may name points or variables
_VOWELS = frozenset("aeiouyAEIOUY")
COMPLEX = frozenset("zw")  # names of complex numbers
PLAIN_DIGITS = 6  # after the point, from which a decimal number stands for the value that it rounds


def is_word(letters: str) -> bool:
    """Return whether letters are a word and not a product: some are vowels, and they are no piece of the alphabet.

    >>> [is_word(letters) for letters in ("Odd", "ellipse", "Mgh", "mGa", "abc", "XYZ")]
    [True, True, False, False, False, False]
    """
    is_spelt = letters.islower() or letters.istitle() or letters.isupper()
    return (
        len(letters) >= WORD and is_spelt and not _VOWELS.isdisjoint(letters) and letters.lower() not in ascii_lowercase
    )
