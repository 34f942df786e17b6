"""The asset models/base: the model that training starts from, as a checked Hugging Face folder."""

import json
from math import prod
from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.failures import user_errors
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.luffy import IO_MANAGER, Luffy
from assets.shared.references import ModelReference, model_stamp
from core import PROJECT
from core.code_digest import code_version
from core.model.weights import read_tensors

KEY = dg.AssetKey(["models", "base"])


@dg.asset(
    key=KEY,
    io_manager_key=IO_MANAGER,
    group_name="models",
    kinds={"huggingface"},
    code_version=code_version(
        "core/model/base_model.py",
        "core/model/architecture.py",
        "core/model/context_extension.py",
        "core/model/model_folder.py",
        "core/model/weights.py",
    ),
    description="The model that training starts from: the tiny model that comes with the project, a model folder, a "
    "GGUF file or a hub id. Each of its files is checked, and its context can be extended.",
)
def base(
    context: dg.AssetExecutionContext, luffy: dg.ResourceParam[Luffy], luffy_interpreter: TrainingInterpreter
) -> dg.MaterializeResult[ModelReference]:
    from core.model.base_model import resolve_base

    with user_errors(context):
        storage = luffy.storage
        settings = luffy.settings.model
        source = str(PROJECT / settings.source) if (PROJECT / settings.source).exists() else settings.source
        with storage.writable():
            model = resolve_base(
                source,
                storage.path / "models" / "base",
                revision=settings.revision,
                context=settings.context,
                train_python=luffy_interpreter.path(),
            )
        facts = describe(model.path)
        context.log.info(f"{settings.source}: {facts['parameters']:,} parameters at {model.path}")
        reference = ModelReference(
            path=str(model.path), digest=model.digest, source=settings.source, stamp=model_stamp(model.path), **facts
        )
        return reference.result(
            {
                "source": settings.source,
                "revision": model.revision or "",
                "folder": dg.MetadataValue.path(str(model.path)),
                **facts,
            }
        )


def describe(folder: Path) -> dict[str, Any]:
    """Describe the size and shape of the model in ``folder``, from its config and the headers of its weights."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names = {
        "architecture": (config.get("architectures") or [config.get("model_type", "")])[0],
        "layers": config.get("num_hidden_layers"),
        "width": config.get("hidden_size"),
        "vocabulary": config.get("vocab_size"),
        "context_tokens": config.get("max_position_embeddings"),
    }
    parameters = sum(prod(tensor.shape) for tensor in read_tensors(folder).values())
    return {"parameters": parameters, **{name: value for name, value in names.items() if value is not None}}
