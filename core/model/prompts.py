"""Prompts: the one place where a problem becomes the text that a model reads.

A conversation (a list of messages with a role and a content) becomes text through a `Template`: either the chat
template that comes with the model's tokenizer, or a whole prompt of ``prompts.yaml``. `render_prompt` does that for
token counts, checks, rollouts, supervised training and benchmarks, and `render_target` writes the response that
continues it. `core.model.episodes` has their tokens.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from core.errors import InputError, first_line
from core.files import read_yaml
from core.model.calls import Format, Schema

if TYPE_CHECKING:
    import pyarrow as pa

TEMPLATES = Path(__file__).resolve().with_name("prompts.yaml")
PROBLEM = "{problem}"  # stands for the problem in a template's text and in a frame
METADATA_KEY = b"template"  # key in the metadata of a parquet file of samples
ENDPOINT = "endpoint"  # name of the template of an endpoint, which renders messages itself
OPEN_THOUGHTS, CLOSE_THOUGHTS = "<think>", "</think>"
# Arguments of every chat template. A template that prints today's date calls `strftime_now`; it gets this date instead,
# so that a prompt is the same on every day: that which the templates of Llama 3 print where they are given none.
TEMPLATE_KWARGS: Mapping[str, Any] = {"strftime_now": "2024-07-26"}

Messages = Sequence[dict[str, str]]
# What the expressions of a template raise, besides errors of Jinja.
RENDERING = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ChatTokenizer(Protocol):
    """A tokenizer of transformers, or a `core.model.chat_template.ChatTemplate`."""

    name_or_path: str
    chat_template: Any
    eos_token: str | None

    def apply_chat_template(
        self, conversation: Any, *, tokenize: bool, add_generation_prompt: bool, **kwargs: Any
    ) -> Any: ...


@dataclass(frozen=True)
class Template:
    """How a conversation becomes a prompt.

    Attributes:
        name: its key in ``prompts.yaml``.
        thinking: the response must close its thoughts with ``</think>`` before its answer.
        text: the whole prompt, with ``{problem}`` in it; None means the tokenizer's chat template.
        system: the system message; None keeps the conversation's, "" leaves it out.
        kwargs: arguments of the tokenizer's chat template, such as ``enable_thinking``; see `template_arguments`.
        tools: the tools that the model may call; ``calls`` is the format of calls (`core.model.calls`), and None
            without tools. The chat template shows them, unless the format is ``tags``.
    """

    name: str
    thinking: bool
    text: str | None = None
    system: str | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Schema] = ()
    calls: Format | None = None

    @property
    def shown_tools(self) -> dict[str, Any]:
        """The argument of the chat template with the tools."""
        return {"tools": list(self.tools)} if self.calls in ("hermes", "llama") else {}


# The chat template of the tokenizer, with the system message of the conversation if it has one.
CHAT = Template("tokenizer", thinking=True)


@cache
def templates() -> dict[str, Template]:
    """Return `CHAT` and the templates of ``prompts.yaml`` by name."""
    entries = read_yaml(TEMPLATES, "templates")
    return {name: Template(name=name, **fields) for name, fields in entries.items()} | {CHAT.name: CHAT}


def messages(problem: str, system_prompt: str | None = None) -> list[dict[str, str]]:
    """Return the conversation that starts with a problem.

    >>> messages("1+1=?", "Be brief.")
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': '1+1=?'}]
    """
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*system, {"role": "user", "content": problem}]


def template_arguments(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return `TEMPLATE_KWARGS` and ``kwargs`` for a chat template, with the date as the function that prints it.

    >>> template_arguments({"strftime_now": "2025-03-01"})["strftime_now"]("%d %B %Y")
    '01 March 2025'
    """
    arguments = {**TEMPLATE_KWARGS, **kwargs}
    return {**arguments, "strftime_now": _strftime(str(arguments["strftime_now"]))}


def _strftime(date: str) -> Callable[[str], str]:
    try:
        return datetime.fromisoformat(date).strftime
    except ValueError:
        raise InputError(
            f"chat_template_kwargs.strftime_now: got {date!r:.80}, expected the date that the chat template prints, as "
            f"in {TEMPLATE_KWARGS['strftime_now']}"
        ) from None


def render_prompt(
    conversation: Messages, tokenizer: ChatTokenizer | None, template: Template = CHAT, *, bare: bool = False
) -> str:
    """Return the text that the model continues.

    Args:
        conversation: ends with the user's message.
        tokenizer: not needed by a template with a fixed text.
        template: the chat template by default.
        bare: If the tokenizer has no chat template, join the contents with newlines instead of raising InputError.
    """
    problem = conversation[-1]["content"]
    if template.text is not None:
        before, _, after = template.text.partition(PROBLEM)
        return _beginning(tokenizer) + before + problem + after
    assert tokenizer is not None, f"the template {template.name} needs a tokenizer"
    if template.system is not None:
        conversation = messages(problem, template.system)
    if tokenizer.chat_template:
        import jinja2

        try:
            return tokenizer.apply_chat_template(
                list(conversation),
                tokenize=False,
                add_generation_prompt=True,
                **template_arguments(template.kwargs),
                **template.shown_tools,
            )
        except (jinja2.TemplateError, *RENDERING) as error:
            roles = ", ".join(message["role"] for message in conversation)
            raise InputError(
                f"{tokenizer.name_or_path}: its chat template does not render a conversation of {roles}: "
                f"{first_line(error)}. Give the conversation the messages that the template asks for "
                "(targets.system_prompt is the system message)"
            ) from error
    if bare:
        return "\n".join(message["content"] for message in conversation)
    raise InputError(
        f"{tokenizer.name_or_path}: the tokenizer has no chat template, so prompts cannot be rendered as in training. "
        "Add chat_template.jinja (or a chat_template in tokenizer_config.json) to that folder, or choose a template "
        f"that needs none ({', '.join(t.name for t in templates().values() if t.text is not None)})"
    )


def prompt_frame(conversation: Messages, tokenizer: ChatTokenizer | None, template: Template = CHAT) -> str:
    """Return the fixed part of every prompt, with ``{problem}`` in place of the problem."""
    return render_prompt([*conversation[:-1], {"role": "user", "content": PROBLEM}], tokenizer, template)


def _beginning(tokenizer: Any) -> str:
    """Return the token that a tokenizer puts before a text; a chat template writes that token itself."""
    bos = getattr(tokenizer, "bos_token", None)
    return bos if bos and tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id] else ""


def render_target(prompt: str, target: str, eos: str | None) -> str:
    r"""Return the text that follows ``prompt`` in an off-policy sample, up to the end-of-sequence token.

    The ``<think>`` of the target is left out if the prompt has opened the thoughts, and so is an end-of-sequence token
    that the target brings: the trainer appends one.

    >>> render_target("<|assistant|><think>\n", "<think>\n1+1=2\n</think>\n\n2", "<|end|>")
    '1+1=2\n</think>\n\n2'
    >>> render_target("<|assistant|>", "<think>\n1+1=2\n</think>\n\n2<|end|>", "<|end|>")
    '<think>\n1+1=2\n</think>\n\n2'
    """
    while eos and target.rstrip().endswith(eos):
        target = target.rstrip().removesuffix(eos)
    if prompt.rstrip().endswith(OPEN_THOUGHTS) and target.startswith(OPEN_THOUGHTS):
        target = target.removeprefix(OPEN_THOUGHTS)
        return target.removeprefix("\n") if prompt.endswith("\n") else target
    return target


def must_end_thoughts(final: str, *, is_episode: bool) -> bool:
    """Return whether an answer counts only after ``</think>``: in an episode, if its last turn thinks."""
    return not is_episode or OPEN_THOUGHTS in final


def encode_prompt(conversation: Messages, tokenizer: Any, template: Template = CHAT) -> list[int]:
    """Return the tokens of a prompt in the chat template, which writes the special ones itself."""
    return tokenizer.encode(render_prompt(conversation, tokenizer, template), add_special_tokens=False)


@dataclass(frozen=True)
class PromptRecord:
    """The description of the prompts in the parquet metadata of samples.

    Attributes:
        name: Name of the template; None if the file records none.
        thinking: an answer counts only after ``</think>``.
        frame: The text around every problem, see `prompt_frame`.
        training: the frame that the checkpoint was trained with; None where it is not known.
    """

    name: str | None = None
    thinking: bool = True
    frame: str | None = None
    training: str | None = None

    @classmethod
    def of(cls, samples: "pa.Table") -> "PromptRecord":
        """Return the record of a SAMPLE or GRADED table."""
        return cls(**json.loads((samples.schema.metadata or {}).get(METADATA_KEY, b"{}")))

    @property
    def is_messages(self) -> bool:
        """Whether the prompts are messages as JSON, as an endpoint gets them, and not the text that the model saw."""
        return self.name == ENDPOINT

    def metadata(self) -> dict[str, str]:
        """Return the entry for the metadata of a table."""
        return {METADATA_KEY.decode(): json.dumps(asdict(self))}
