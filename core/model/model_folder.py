"""Hugging Face model folders: which files make the model, their digest, whether they are whole, and their download."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import digest_bytes, digest_file, read_json
from core.model.special_tokens import check_end_token
from core.text.parse import parse_object
from core.text.patterns import compile_full_match

# The files that make a model what it is; anything else in its folder (a README, a manifest) does not change it.
MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "pytorch_model*.bin",
    "pytorch_model*.bin.index.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "chat_template*",
    "*.py",
)
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "*.tiktoken")
HUB_ID = compile_full_match(r"(?P<repository>\w[\w.-]*/\w[\w.-]*)(@(?P<revision>[\w./-]+))?")


def model_files(folder: Path) -> list[Path]:
    """Return the files of a Hugging Face folder that make the model what it is."""
    return sorted({file for pattern in MODEL_FILES for file in Path(folder).glob(pattern) if file.is_file()})


def model_digest(folder: Path) -> str:
    """Return the sha256 over the names and contents of `model_files`."""
    lines = [f"{file.name}\0{digest_file(file)}\n" for file in model_files(folder)]
    return digest_bytes("".join(lines).encode())


def check_model(folder: Path, *, chat_template: bool = True, kwargs: Mapping[str, Any] | None = None) -> None:
    """Check that ``folder`` holds a configuration, whole weights, a tokenizer and, unless told not to, a chat template.

    ``kwargs`` are the arguments of the chat template.

    Raises:
        InputError: something is missing or damaged; the message names the file and the remedy.
    """
    from core.model.chat_template import check_chat_template  # jinja2, which the code location does not need

    if not isinstance(_read_json(folder, "config.json").get("model_type"), str):
        raise InputError(
            f"{folder / 'config.json'}: no model_type in it, or one that is no name; expected the config.json of "
            "transformers"
        )
    _check_weights(folder)
    if not any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        raise InputError(f"{folder}: no tokenizer; expected one of {', '.join(TOKENIZERS)}: save it with the model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            _read_json(folder, name)
    check_end_token(folder)
    check_chat_template(folder, kwargs)
    if not chat_template or any(folder.glob("chat_template*")):
        return
    if "chat_template" not in _read_json(folder, "tokenizer_config.json"):
        raise InputError(
            f"{folder}: its tokenizer has no chat template, which renders every prompt: add a chat_template.jinja"
        )


def safetensors_header(file: Path) -> dict[str, Any] | None:
    """Read dtype, shape and offsets by tensor name from the header of a safetensors file; None if it is unreadable."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length < file.stat().st_size:
            return None
        try:
            header = parse_object(stream.read(length), str(file))
        except InputError:
            return None
    header.pop("__metadata__", None)
    return header if all(map(_has_offsets, header.values())) else None


def _has_offsets(tensor: Any) -> bool:
    offsets = tensor.get("data_offsets") if isinstance(tensor, dict) else None
    return isinstance(offsets, list) and len(offsets) == 2 and all(isinstance(offset, int) for offset in offsets)


def bfloat16_bytes(folder: Path) -> int:
    """Return the memory of the model's weights in bfloat16; for other files than safetensors, their size."""
    shards = [*folder.glob("*.safetensors")]
    if not shards:
        return sum(file.stat().st_size for file in folder.glob("pytorch_model*.bin"))
    return sum(
        2 * math.prod(tensor["shape"]) for file in shards for tensor in (safetensors_header(file) or {}).values()
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


def _check_weights(folder: Path) -> None:
    shards = {file.name for pattern in WEIGHTS for file in folder.glob(pattern)}
    if not shards:
        raise InputError(
            f"{folder}: no weights; expected *.safetensors or pytorch_model*.bin: is the download complete?"
        )
    for index in [file for pattern in WEIGHTS for file in folder.glob(f"{pattern}.index.json")]:
        weights = _read_json(folder, index.name).get("weight_map")
        if not isinstance(weights, dict) or not all(isinstance(name, str) for name in weights.values()):
            raise InputError(f"{index}: no weight_map of tensor names to files in it: save the model again")
        if missing := set(weights.values()) - shards:
            raise InputError(f"{index}: names {len(missing)} files that are not there ({min(missing)}): copy them too")
    for file in folder.glob("*.safetensors"):
        header = safetensors_header(file)
        if header is None:
            raise InputError(f"{file}: no readable safetensors header: copy or download it again")
        ends = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
        with file.open("rb") as stream:
            expected = 8 + int.from_bytes(stream.read(8), "little") + ends
        if (size := file.stat().st_size) != expected:
            raise InputError(f"{file}: {size} bytes where its header says {expected}: copy or download it again")


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
