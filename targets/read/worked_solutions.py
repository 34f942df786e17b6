"""Turn worked solutions of word problems, which have no thoughts and no box, into targets."""

from collections.abc import Sequence

from core.text.patterns import compile_quick_pattern
from grading.answers.gold import split_solution

ANNOTATION = compile_quick_pattern(r"<<[^<>\n]*>>")  # what GSM8K's calculator computes: "48/2 = <<48/2=24>>24"


def render_steps(solution: Sequence[str] | str) -> str:
    r"""The target that thinks a solution, one step a line, and boxes its result.

    That is the answer below the text of a solution ("#### 13000"), or what the last equation results in. A gold answer
    in another column plays no part, so that steps which lead elsewhere are found wrong like any other trace.

    >>> render_steps(["1500 * 8 = 12000", "25000 - 12000 = 13000"])
    '<think>\n1500 * 8 = 12000\n25000 - 12000 = 13000\n</think>\n\n\\boxed{13000}'
    >>> render_steps("She has 2*3 = <<2*3=6>>6 eggs.\n#### 6")
    '<think>\nShe has 2*3 = 6 eggs.\n</think>\n\n\\boxed{6}'
    """
    result = None
    if isinstance(solution, str):
        text, result = split_solution(solution)
        solution = ANNOTATION.sub("", text).splitlines()
    lines = [step.strip() for step in solution if step.strip()]
    if result is None:
        result = lines[-1].rpartition("=")[2].strip()
    return "<think>\n" + "\n".join(lines) + f"\n</think>\n\n\\boxed{{{result}}}"
