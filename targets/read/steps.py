"""Targets out of equations: the steps of a word problem, which have no thoughts and no box yet."""

from collections.abc import Sequence


def render_steps(steps: Sequence[str]) -> str:
    r"""The target that thinks ``steps``, one a line, and boxes what the last one results in.

    The gold answer plays no part, so that steps which lead elsewhere are found wrong like any other trace.

    >>> render_steps(["1500 * 8 = 12000", "25000 - 12000 = 13000"])
    '<think>\n1500 * 8 = 12000\n25000 - 12000 = 13000\n</think>\n\n\\boxed{13000}'
    """
    lines = [step.strip() for step in steps]
    result = lines[-1].rpartition("=")[2].strip()
    return "<think>\n" + "\n".join(lines) + f"\n</think>\n\n\\boxed{{{result}}}"
