"""The model under evaluation: a Hugging Face folder, or a hub id that becomes one, and what names it on a scorecard."""

import json
import os
import re
from pathlib import Path

from core.errors import InputError
from core.files import MODEL_FILES, model_digest

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def resolve_model(name: str) -> Path:
    """The checked folder of ``name``: a folder, or a hub id, with ``@revision`` where one is meant.

    A hub model is downloaded where the local cache lacks it. Raises InputError for what is neither or is incomplete.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir() and HUB_ID.fullmatch(name) and not folder.exists():
        folder = _download(*name.partition("@")[::2])
    check_model(folder)
    return folder


def check_model(model: Path) -> None:
    """Raise InputError unless ``model`` has a configuration, a tokenizer and weights."""
    if not (model / "config.json").is_file():
        raise InputError(
            f"model {model}: no config.json there; expected the Hugging Face folder of a checkpoint, or a hub id "
            "such as Qwen/Qwen2.5-Math-7B@main"
        )
    if not any((model / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "vocab.json")):
        raise InputError(f"model {model}: no tokenizer (tokenizer.json) there; save the tokenizer into that folder")
    if not any(model.glob("*.safetensors")) and not any(model.glob("*.bin")):
        raise InputError(f"model {model}: no weights (*.safetensors); is the download or the training complete?")


def checkpoint_digest(model: Path) -> str:
    """What names a model: the digest in its ``lineage.json``, else that of its files (the same as models/base has)."""
    manifest = Path(model) / "lineage.json"
    if manifest.is_file():
        return str(json.loads(manifest.read_text(encoding="utf-8"))["checkpoint_digest"])
    return model_digest(model)


def _download(repository: str, revision: str) -> Path:
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=list(MODEL_FILES)))
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        offline = "HF_HUB_OFFLINE is set, and " if os.environ.get("HF_HUB_OFFLINE") else ""
        raise InputError(
            f"model {repository}{'@' + revision if revision else ''}: no folder here, and not to be had from the hub: "
            f"{offline}{type(error).__name__}; check the name, or give the folder of a download"
        ) from error
