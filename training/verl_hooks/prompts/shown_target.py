"""Prompts that show a target: the whole of it to a teacher (OPSD), its beginning to the policy (POPE). No torch."""

from typing import Any

from core.model.prompts import Messages

# Their bytes, and so their tokens, are fewer than `training.config.teacher_settings.WORDING`.
WHOLE = (
    "{problem}\n\nThis is a correct solution:\n\n{target}\n\nUse it to understand the problem. Then write a solution "
    "of your own, step by step."
)
BEGINNING = (
    "{problem}\n\nThis is the beginning of a correct solution:\n\n{target}\n\nWork out what it has done so far, and "
    "continue it to the end, step by step."
)


def show_target(conversation: Messages, target: str, *, whole: bool) -> list[dict[str, Any]]:
    """Return ``conversation`` with ``target`` below the problem, and what to do with it; without a target as it is.

    >>> show_target([{"role": "user", "content": "1+1=?"}], "1+1", whole=False)[0]["content"].splitlines()[:5]
    ['1+1=?', '', 'This is the beginning of a correct solution:', '', '1+1']
    """
    if not target:
        return list(conversation)
    problem = conversation[-1]["content"]
    text = (WHOLE if whole else BEGINNING).replace("{target}", target, 1).replace("{problem}", problem, 1)
    return [*conversation[:-1], {**conversation[-1], "content": text}]
