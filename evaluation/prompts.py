"""Prompts: messages from problems, options as text, and the rendering that a checkpoint's own chat template defines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.errors import InputError

LETTERS = "ABCDEFGHIJ"


def messages(problem: str, system_prompt: str | None) -> list[dict[str, str]]:
    """The conversation a benchmark problem starts: an optional system message, then the problem."""
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*system, {"role": "user", "content": problem}]


def with_options(question: str, options: Sequence[str]) -> str:
    """A question and its options (at most ten) labelled A to J, in the form of LUFFY's ARC and GPQA files."""
    lines = [f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return f"{question.rstrip()}\n\n" + "\n".join(lines) + "\n"


def render(tokenizer: Any, conversation: Sequence[dict[str, str]], *, where: Path) -> str:
    """The text the model sees, by the checkpoint's own template; raises InputError if it has none."""
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            f"{where}: the tokenizer has no chat template, so prompts cannot be rendered as in training; "
            "add chat_template.jinja (or a chat_template in tokenizer_config.json) to that folder"
        )
    return tokenizer.apply_chat_template(list(conversation), tokenize=False, add_generation_prompt=True)
