"""Prompts: messages from problems, options as text, and the templates that turn them into what the model sees.

The templates are data (``templates/prompts.yaml``). "training", the default, is the prompt that a checkpoint was
trained with, as its ``lineage.json`` tells; a model that nobody here trained has none, and gets the suite's own
messages in its own chat template.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import InputError

LETTERS = "ABCDEFGHIJ"
TRAINING, TOKENIZER = "training", "tokenizer"
PLACE = "{problem}"  # where the problem stands in a template's text, and in a frame
TEMPLATES = Path(__file__).resolve().parent / "prompts.yaml"

Messages = Sequence[dict[str, str]]


@dataclass(frozen=True)
class Template:
    """How a problem becomes a prompt. ``text``: the whole prompt; None: the tokenizer's chat template.

    ``system``: the system message before the problem; None keeps the suite's own, "" is none at all.
    ``thinking``: the response must close its thoughts with ``</think>`` before its answer.
    """

    name: str
    thinking: bool
    text: str | None = None
    system: str | None = None


@cache
def templates() -> dict[str, Template]:
    """The templates of ``templates/prompts.yaml`` by name."""
    import yaml

    found = yaml.safe_load(TEMPLATES.read_text(encoding="utf-8"))
    return {name: Template(name=name, **fields) for name, fields in found.items()}


def template_names() -> list[str]:
    """What `choose_template` accepts."""
    return [TRAINING, *templates()]


def choose_template(name: str, model: Path) -> Template:
    """The template called ``name`` for the checkpoint in ``model``.

    Raises InputError for an unknown name, and where "training" is asked for and the checkpoint's lineage names targets
    that are not there any more.
    """
    if name == TRAINING:
        system = training_system(model)
        return replace(templates()[TOKENIZER], name=TRAINING, system=system)
    if name not in templates():
        raise InputError(f"prompt template {name!r} does not exist: expected one of {', '.join(template_names())}")
    return templates()[name]


def training_system(model: Path) -> str | None:
    """The system message that ``model`` was trained with ("" for none at all); None if nobody here trained it.

    From the targets that the checkpoint's ``lineage.json`` names: the setting of their preparation, else the message
    of their first row. Raises InputError where neither can be read.
    """
    manifest = Path(model) / "lineage.json"
    if not manifest.is_file():
        return None
    targets = json.loads(manifest.read_text(encoding="utf-8")).get("targets", {})
    prepared = json.loads(targets.get("metadata", {}).get("config", "{}"))
    if prepared.get("system_prompt") is not None:
        return prepared["system_prompt"]
    path = Path(targets.get("path", ""))
    if not path.is_file():
        raise InputError(
            f"{manifest}: it names targets at {path or 'no place'}, which are not there, so the prompt of the training "
            f"is not known; say which template it was: one of {', '.join(templates())}"
        )
    import pyarrow.parquet as pq

    rows = next(pq.ParquetFile(path).iter_batches(1, columns=["prompt"])).to_pylist()
    return next((message["content"] for message in rows[0]["prompt"] if message["role"] == "system"), "")


def messages(problem: str, system_prompt: str | None) -> list[dict[str, str]]:
    """The conversation a benchmark problem starts: an optional system message, then the problem."""
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*system, {"role": "user", "content": problem}]


def with_options(question: str, options: Sequence[str]) -> str:
    """A question and its options (at most ten) labelled A to J, in the form of LUFFY's ARC and GPQA files."""
    lines = [f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return f"{question.rstrip()}\n\n" + "\n".join(lines) + "\n"


def render(template: Template, tokenizer: Any, conversation: Messages, *, where: Path) -> str:
    """The text the model sees for a conversation of the suite.

    Raises InputError if the template needs the tokenizer's chat template and there is none.
    """
    problem = conversation[-1]["content"]
    if template.text is not None:
        before, _, after = template.text.partition(PLACE)
        return before + problem + after
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            f"{where}: the tokenizer has no chat template, so prompts cannot be rendered as in training; "
            "add chat_template.jinja (or a chat_template in tokenizer_config.json) to that folder, or choose a "
            f"template that needs none ({', '.join(t.name for t in templates().values() if t.text is not None)})"
        )
    own = list(conversation) if template.system is None else messages(problem, template.system)
    return tokenizer.apply_chat_template(own, tokenize=False, add_generation_prompt=True)


def frame(template: Template, tokenizer: Any, conversation: Messages, *, where: Path) -> str:
    """What stands around every problem: the rendered prompt with ``{problem}`` in the place of the problem."""
    blank = [*conversation[:-1], {"role": "user", "content": PLACE}]
    return render(template, tokenizer, blank, where=where)
