"""Hugging Face model folders: which files make the model, their digest, whether they are whole, and their download."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from core.errors import InputError
from core.files import digest_bytes, digest_file, read_json
from core.model.architecture import check_weights
from core.model.prompts import CLOSE_THOUGHTS, OPEN_THOUGHTS
from core.model.special_tokens import check_end_token, check_token_ids, vocabulary
from core.text.patterns import compile_full_match

# The files that make a model what it is; anything else in its folder (a README, a manifest) does not change it.
MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "chat_template*",
    "*.py",
)
Use = Literal["train", "sample"]
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "*.tiktoken")
HUB_ID = compile_full_match(r"(?P<repository>\w[\w.-]*/\w[\w.-]*)(@(?P<revision>[\w./-]+))?")


def model_files(folder: Path) -> list[Path]:
    """Return the files of a Hugging Face folder that make the model what it is."""
    return sorted({file for pattern in MODEL_FILES for file in Path(folder).glob(pattern) if file.is_file()})


def model_digest(folder: Path) -> str:
    """Return the sha256 over the names and contents of `model_files`."""
    lines = [f"{file.name}\0{digest_file(file)}\n" for file in model_files(folder)]
    return digest_bytes("".join(lines).encode())


def check_model(folder: Path, use: Use = "train", *, kwargs: Mapping[str, Any] | None = None) -> None:
    """Check that ``folder`` holds a model for ``use``: a configuration, its weights, and a tokenizer that fits them.

    A model that is trained needs a chat template; ``kwargs`` are its arguments.

    Raises:
        InputError: something is missing, damaged, or not of one model; the message names the file and the remedy.
    """
    from core.model.chat_template import ChatTemplate, check_chat_template  # jinja2, which Dagster does not need

    config = _read_json(folder, "config.json")
    if not isinstance(config.get("model_type"), str):
        raise InputError(
            f"{folder / 'config.json'}: no model_type in it, or not a name; expected the config.json of transformers"
        )
    check_weights(folder, config, trained=use == "train")
    if not any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        raise InputError(f"{folder}: no tokenizer; expected one of {', '.join(TOKENIZERS)}: save it with the model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            _read_json(folder, name)
    tokens = vocabulary(folder)
    check_end_token(folder, tokens)
    check_chat_template(folder, kwargs)
    template = ChatTemplate(folder).chat_template
    if isinstance(rows := config.get("vocab_size"), int):
        check_token_ids(folder, tokens, rows, f"{template} {OPEN_THOUGHTS} {CLOSE_THOUGHTS}")
    if use == "train" and template is None and not any(folder.glob("chat_template*")):
        raise InputError(
            f"{folder}: its tokenizer has no chat template, which renders every prompt: add a chat_template.jinja"
        )


def download_model(repository: str, revision: str | None) -> tuple[Path, str]:
    """Return the folder of a hub model in the local cache, after downloading what it lacks, and its commit.

    Raises:
        InputError: the hub does not have the model or the revision, does not give it to you, or cannot be reached.
    """
    from huggingface_hub import errors, snapshot_download

    name = f"{repository}@{revision}" if revision else repository
    try:
        path = snapshot_download(repository, revision=revision, allow_patterns=list(MODEL_FILES))
    except errors.RevisionNotFoundError as error:
        raise InputError(f"model {repository!r} has no revision {revision!r} on the hub: check its name") from error
    except errors.GatedRepoError as error:
        raise InputError(f"model {name!r} is gated: accept its terms on the hub and set HF_TOKEN") from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"model {name!r} is neither a folder here nor a model on the hub: check the name, and HF_TOKEN if the "
            "model is private"
        ) from error
    except errors.HFValidationError as error:
        raise InputError(f"model {name!r} is neither a folder here nor a hub id (owner/name[@revision])") from error
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise InputError(
            f"model {name!r} is not a folder here or in the local cache, and the hub cannot be reached{offline}: "
            "connect, or download it elsewhere and give its folder"
        ) from error
    return Path(path), Path(path).name


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    file = folder / name
    if not file.is_file():
        raise InputError(
            f"{folder}: no {name} in it; expected a Hugging Face model folder: config.json, weights and tokenizer"
        )
    value = read_json(file)
    if not isinstance(value, dict):
        raise InputError(f"{file}: a JSON {type(value).__name__} where an object was expected: save the model again")
    return value
