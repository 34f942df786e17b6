"""Episodes: responses of several turns, between which the observations of tools stand.

A target is a list of messages, ``assistant, tool, …, assistant``; with one message it is an episode of one turn. Every
turn of the policy's ends with its end token, so that the tokens of an episode are those of its turns and of its
observations one after the other: nothing is rendered or tokenized twice, neither here nor when an episode is sampled.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from core.errors import InputError
from core.model.calls import read_calls
from core.model.prompts import (
    CHAT,
    CLOSE_THOUGHTS,
    OPEN_THOUGHTS,
    ChatTokenizer,
    Messages,
    Template,
    render_prompt,
    render_target,
)
from core.text.patterns import compile_quick_pattern

TOOL = "tool"  # role of an observation
STAND_IN = "A turn that calls a tool."
# With thoughts: some templates write empty ones into a turn that has none.
STAND_IN_TURN = {"role": "assistant", "content": f"<think>\n{STAND_IN}\n</think>\n\n{STAND_IN}"}
# The start of what some tokenizer reads as a token between turns.
SPECIAL = compile_quick_pattern(
    r"<(?=\|[^<>|\n]{1,40}\|>|/?s>|(?:start|end)_of_turn>|[be]os>|pad>|\uff5c[^\uff5c\n]{1,40}\uff5c>)|\[(?=/?INST\])"
)


class Segment(NamedTuple):
    """Text of an episode. The policy's own turns are ``counted``, and have an end token; observations are not."""

    text: str
    counted: bool


class Example(NamedTuple):
    """Token ids of a prompt and of a response with its end tokens; ``mask`` is 0 for tokens of observations, else 1."""

    prompt: list[int]
    response: list[int]
    mask: list[int]


def render_episode(
    conversation: Messages,
    target: Messages,
    tokenizer: ChatTokenizer,
    template: Template = CHAT,
    *,
    bare: bool = False,
) -> tuple[str, list[Segment]]:
    """Return the prompt of an episode, and the text of its turns and observations.

    Args:
        bare: as for `render_prompt`.

    Raises:
        InputError: the chat template does not render a conversation with tools.
    """
    prompt = before = render_prompt(conversation, tokenizer, template, bare=bare)
    segments: list[Segment] = []
    for role, group in groupby(target, key=lambda message: message["role"]):
        contents = [message["content"] for message in group]
        if role == TOOL:
            calls = read_calls(segments[-1].text, template.calls, template.tools) if template.calls else []
            named = [*(call.name for call in calls), *[""] * len(contents)]
            before = observation_text(conversation, list(zip(named, contents, strict=False)), tokenizer, template)
            segments.append(Segment(before, counted=False))
        else:
            turn = "".join(contents)
            segments.append(Segment(render_target(before, turn, tokenizer.eos_token), counted=True))
    return prompt, segments


def encode_episode(conversation: Messages, target: Messages, tokenizer: Any, template: Template = CHAT) -> Example:
    """Return the tokens of a prompt and of a target; raises as `render_episode` does."""
    prompt, segments = render_episode(conversation, target, tokenizer, template)
    ids = tokenizer([prompt, *(segment.text for segment in segments)], add_special_tokens=False)["input_ids"]
    response: list[int] = []
    mask: list[int] = []
    for segment, tokens in zip(segments, ids[1:], strict=True):
        response += [*tokens, tokenizer.eos_token_id] if segment.counted else tokens
        mask += [int(segment.counted)] * (len(response) - len(mask))
    return Example(ids[0], response, mask)


def encode_example(conversation: Messages, target: str, tokenizer: Any, template: Template = CHAT) -> Example:
    """Return the tokens of a prompt and of a target of one turn."""
    return encode_episode(conversation, [{"role": "assistant", "content": target}], tokenizer, template)


def observation_text(
    conversation: Messages, observations: Sequence[tuple[str, str]], tokenizer: ChatTokenizer, template: Template
) -> str:
    """Return what the chat template writes between the end token of a turn and the next turn.

    Args:
        conversation: of the prompt.
        observations: name of the tool and observation, of each call of the turn.

    Raises:
        InputError: the template ends turns in another way, or cannot render observations.
    """
    messages = [{"role": TOOL, "name": name, "content": without_special(text)} for name, text in observations]
    whole = render_prompt([*conversation, STAND_IN_TURN, *messages], tokenizer, replace(template, system=None))
    rest, end = whole.rpartition(STAND_IN)[2], tokenizer.eos_token or ""
    if not end or not rest.startswith(end):
        raise InputError(
            f"{tokenizer.name_or_path}: its chat template does not end a turn with {end or 'an end token'}: tools are "
            "not supported; take a model with a template that does"
        )
    return rest.removeprefix(end)


def final_turn(target: Messages) -> str:
    """Return the turn that states the answer, with ``<think>`` before it if an earlier turn has left thoughts open."""
    *earlier, last = [message["content"] for message in target if message["role"] != TOOL]
    thoughts = "".join(earlier)
    is_open = thoughts.count(OPEN_THOUGHTS) > thoughts.count(CLOSE_THOUGHTS)
    return f"{OPEN_THOUGHTS}\n{last}" if is_open and not last.startswith(OPEN_THOUGHTS) else last


def without_special(text: str) -> str:
    """Return ``text`` with a space in what a tokenizer would read as the token of a turn.

    >>> without_special("4<|im_end|>")
    '4< |im_end|>'
    """
    return SPECIAL.sub(lambda start: f"{start.group()} ", text)
