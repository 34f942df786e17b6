"""Turn solutions that no model wrote into responses: solutions of word problems, and of Reasoning Gym's tasks.

The first have neither thoughts nor a box. The second are entries with an answer, to which a program writes the steps.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.text.patterns import compile_quick_pattern
from grading.answers.gold import split_solution
from targets.trace import CLOSE_THINK, OPEN_THINK

ANNOTATION = compile_quick_pattern(r"<<[^<>\n]*>>")  # what GSM8K's calculator computes: "48/2 = <<48/2=24>>24"


def render_steps(solution: Sequence[str] | str) -> str:
    r"""Return a target that has a solution as its thoughts, one step per line, and the result in a box.

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
    return OPEN_THINK + "\n".join(lines) + f"{CLOSE_THINK}\\boxed{{{result}}}"


def solution_of(entry: Mapping[str, Any]) -> str:
    """The response to an entry of a task: steps where `STEPS` knows the task, then the answer in its tag."""
    facts, answer = entry["metadata"], entry["answer"]
    steps = STEPS.get(facts["source_dataset"], _answer_alone)({**facts, "answer": answer})
    return f"{OPEN_THINK}{steps}{CLOSE_THINK}<answer>{answer}</answer>"


def _answer_alone(facts: Mapping[str, Any]) -> str:
    return f"The answer is {facts['answer']}."


def _sums(facts: Mapping[str, Any]) -> str:
    """One operation per line: ``4 - 1 = 3``, ``3 - 7 = -4``."""
    first, *rest = facts["expression"].split()
    total, lines = int(first), []
    for sign, number in zip(rest[::2], rest[1::2], strict=True):
        result = total + int(number) if sign == "+" else total - int(number)
        lines.append(f"{total} {sign} {number} = {result}")
        total = result
    return "\n".join(lines) or first


def _conclusion(facts: Mapping[str, Any]) -> str:
    verdict = "It follows" if facts["is_valid"] else "It does not follow"
    return f"{facts['premise1']}. {facts['premise2']}. Is it that {facts['conclusion']}? {verdict}."


def _letters(facts: Mapping[str, Any]) -> str:
    return f"{' '.join(facts['word'])}\n{' '.join(reversed(facts['word']))}"


def _relation(facts: Mapping[str, Any]) -> str:
    return f"{facts['person1']} is the {facts['relationship']} of {facts['person2']}."


def _empty_cells(facts: Mapping[str, Any]) -> str:
    """The number in each empty cell: ``row 1, column 3: 4``."""
    cells = [(row, column) for row, line in enumerate(facts["puzzle"]) for column, n in enumerate(line) if n == 0]
    return "\n".join(f"row {r + 1}, column {c + 1}: {facts['solution'][r][c]}" for r, c in cells)


def _printed(facts: Mapping[str, Any]) -> str:
    """Each value that the program prints, and its character: ``119 w``."""
    return "\n".join(f"{ord(character)} {character}" for character in facts["answer"])


STEPS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "chain_sum": _sums,
    "syllogism": _conclusion,
    "spell_backward": _letters,
    "family_relationships": _relation,
    "mini_sudoku": _empty_cells,
    "bf": _printed,
}
