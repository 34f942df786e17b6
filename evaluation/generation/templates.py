"""Choose the prompt template for evaluating a checkpoint: by default the one that it was trained with.

A checkpoint's ``lineage.json`` says how it was trained. A model that was not trained here has none, and gets the
suite's messages in its own chat template.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.model.lineage_file import MANIFEST, parse_manifest
from core.model.prompts import CHAT, Template, templates
from core.parquet import is_there, read_batches

TRAINING = "training"


def template_names() -> list[str]:
    """Return what `choose_template` accepts."""
    return [TRAINING, *templates()]


def choose_template(name: str, model: Path, kwargs: Mapping[str, Any] | None = None) -> Template:
    """Return the template called ``name`` for the checkpoint in ``model``.

    Args:
        name: one of `template_names`.
        model: the folder of the checkpoint.
        kwargs: arguments of the model's chat template, in addition to the training's.

    Raises InputError for "training" if the targets that the lineage names are gone, and for
    ``kwargs`` of a template that is a whole prompt.
    """
    template = CHAT if name == TRAINING else templates()[name]
    if template.text is not None:
        if kwargs:
            raise InputError(
                f"chat_template_kwargs: {', '.join(kwargs)}: the prompt template {name} is a whole prompt and no chat "
                "template: leave them out, or choose another template"
            )
        return template
    template = replace(template, kwargs={**training_kwargs(model), **(kwargs or {})})
    return replace(template, name=TRAINING, system=training_system(model)) if name == TRAINING else template


def training_kwargs(model: Path) -> dict[str, Any]:
    """Return the arguments of the chat template that ``model`` was trained with; none if it was not trained here."""
    if not (Path(model) / MANIFEST).is_file():
        return {}
    return parse_manifest(model).config.get("chat_template_kwargs", {})


def training_system(model: Path) -> str | None:
    """Return the system message that ``model`` was trained with ("" for none at all); None if it was not trained here.

    It is the setting with which the targets of the checkpoint's ``lineage.json`` were prepared, else the message of
    their first row. Raises InputError if neither can be read.
    """
    if not (Path(model) / MANIFEST).is_file():
        return None
    targets = parse_manifest(model).targets
    prepared = json.loads(targets.metadata.get("config", "{}"))
    if prepared.get("system_prompt") is not None:
        return prepared["system_prompt"]
    path = targets.locate(Path(model))
    if not is_there(path):
        raise InputError(
            f"{Path(model) / MANIFEST}: it names targets at {path}, which are not there, so the prompt of the "
            f"training is not known; choose the template yourself, one of {', '.join(templates())}"
        )
    rows = next(read_batches(path, 1, ["prompt"])).to_pylist()
    return next((message["content"] for message in rows[0]["prompt"] if message["role"] == "system"), "")
