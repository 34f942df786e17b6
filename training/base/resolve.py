"""Where a base model comes from: the embedded one, a folder, a GGUF file or the Hugging Face hub.

Whatever was asked for, the answer is a Hugging Face folder that was checked file by file, so that a mistake is
reported here and not ten minutes later by a Ray worker. Imports no torch: both interpreters use it.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.code import PROJECT
from core.errors import InputError
from core.files import MODEL_FILES, digest_file, model_digest, model_files

EMBEDDED = "embedded"
SHIPPED = Path(__file__).parent / "model"
TRAIN_PYTHON = PROJECT / ".venv-train" / "bin" / "python"

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "*.tiktoken")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
ACCEPTED = (
    f"give {EMBEDDED!r}, a Hugging Face folder (config.json, weights, tokenizer), a .gguf file, or a hub id "
    "such as Qwen/Qwen2.5-Math-7B"
)


@dataclass(frozen=True)
class BaseModel:
    """A checked model folder; ``digest`` is the sha256 of its content, ``revision`` the hub's commit or None."""

    path: Path
    digest: str
    source: str
    revision: str | None


def resolve_base(
    source: str, out_root: Path, *, revision: str | None = None, train_python: Path | str | None = None
) -> BaseModel:
    """Make ``source`` a model folder and check it.

    Args:
        source: "embedded", a folder, a ``.gguf`` file, or a hub id.
        out_root: where folders are made that do not exist yet (a copy of the embedded model, a converted GGUF file);
            their names carry the digest of their content, so that they are made once and never change.
        revision: branch, tag or commit of a hub id.
        train_python: the interpreter that has transformers, for GGUF files; ``.venv-train``'s by default.

    Raises:
        InputError: there is no such model, or something is missing or broken in it.
    """
    path, commit = Path(source).expanduser(), None
    if revision is not None and (source == EMBEDDED or path.exists()):
        raise InputError(f"model {source!r} has no revisions; expected one only with a hub id: leave it out")
    if source == EMBEDDED:
        folder = _copy(SHIPPED, Path(out_root))
    elif path.is_dir():
        folder = path.resolve()
    elif path.is_file():
        folder = _convert(path.resolve(), Path(out_root), Path(train_python or TRAIN_PYTHON))
    elif HUB_ID.fullmatch(source):
        folder, commit = _download(source, revision)
    else:
        raise InputError(f"model {source!r} does not exist: {ACCEPTED}")
    check_model(folder)
    return BaseModel(folder, model_digest(folder), source, commit)


def check_model(folder: Path) -> None:
    """Raise InputError, naming file and remedy, unless ``folder`` holds a model, whole weights and a tokenizer."""
    config = _read_json(folder, "config.json")
    if "model_type" not in config:
        raise InputError(f"{folder / 'config.json'}: no model_type in it; expected a transformers model: {ACCEPTED}")
    _check_weights(folder)
    if not any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        raise InputError(f"{folder}: no tokenizer; expected one of {', '.join(TOKENIZERS)}: save it with the model")
    templates = list(folder.glob("chat_template*")) or "chat_template" in _read_json(folder, "tokenizer_config.json")
    if not templates:
        raise InputError(
            f"{folder}: its tokenizer has no chat template, which renders every prompt: add a chat_template.jinja"
        )


def _check_weights(folder: Path) -> None:
    shards = {file.name for pattern in ("*.safetensors", "pytorch_model*.bin") for file in folder.glob(pattern)}
    if not shards:
        raise InputError(f"{folder}: no weights; expected *.safetensors or pytorch_model*.bin")
    for index in [*folder.glob("*.safetensors.index.json"), *folder.glob("pytorch_model*.bin.index.json")]:
        if missing := set(_read_json(folder, index.name).get("weight_map", {}).values()) - shards:
            raise InputError(f"{index}: names {len(missing)} files that are not there ({min(missing)}): copy them too")
    for file in folder.glob("*.safetensors"):
        size, expected = file.stat().st_size, _safetensors_size(file)
        if size != expected:
            raise InputError(f"{file}: {size} bytes where its header says {expected}: copy or download it again")


def _safetensors_size(file: Path) -> int | None:
    """Size in bytes of a whole file with this header; None if there is no readable header."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length < file.stat().st_size:
            return None
        try:
            header: dict[str, Any] = json.loads(stream.read(length))
        except ValueError:
            return None
    ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
    return 8 + length + max(ends, default=0)


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    file = folder / name
    if not file.is_file():
        raise InputError(f"{folder}: no {name} in it; expected a Hugging Face model folder: {ACCEPTED}")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not JSON ({error}): save or download the model again") from error
    if not isinstance(value, dict):
        raise InputError(f"{file}: a JSON {type(value).__name__} where an object was expected: save the model again")
    return value


def _copy(folder: Path, out_root: Path) -> Path:
    """Copy the content of ``folder`` below ``out_root``, under its digest; complete or absent."""
    check_model(folder)
    target = out_root / f"{EMBEDDED}-{model_digest(folder)[:16]}"
    if not target.exists():
        _publish(target, lambda temporary: _copy_files(model_files(folder), temporary))
    return target


def _copy_files(files: Iterable[Path], target: Path) -> None:
    target.mkdir(parents=True)
    for file in files:
        shutil.copy2(file, target / file.name)


def _convert(file: Path, out_root: Path, train_python: Path) -> Path:
    """Convert a GGUF file in the training interpreter, once for each content."""
    with file.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise InputError(f"{file}: not a GGUF file: {ACCEPTED}")
    if not train_python.is_file():
        raise InputError(f"{train_python}: no training interpreter there, which converts {file.name}: run `make setup`")
    target = out_root / f"{file.stem}-{digest_file(file)[:16]}"
    if not target.exists():
        _publish(target, lambda temporary: _run_conversion(train_python, file, temporary))
    return target


def _run_conversion(train_python: Path, file: Path, target: Path) -> None:
    command = [str(train_python), "-m", "training.export.convert", "--gguf", str(file), "--out", str(target)]
    done = subprocess.run(
        command, cwd=PROJECT, env=os.environ | {"HF_HUB_OFFLINE": "1"}, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode == 2:  # a mistake in the input, explained by the command line on its last line
        raise InputError(done.stderr.strip().splitlines()[-1].removeprefix("error: "))
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr[-4000:]}")


def _publish(target: Path, write: Any) -> None:
    """Let ``write`` fill a temporary folder beside ``target``, then rename it."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _download(repository: str, revision: str | None) -> tuple[Path, str]:
    """The folder of a hub model in the local cache, downloading what is not there, and its commit."""
    from huggingface_hub import errors, snapshot_download

    at = f"{repository}@{revision}" if revision else repository
    try:
        path = snapshot_download(repository, revision=revision, allow_patterns=list(MODEL_FILES))
    except errors.RevisionNotFoundError as error:
        raise InputError(f"model {repository!r} has no revision {revision!r} on the hub: check its name") from error
    except errors.GatedRepoError as error:
        raise InputError(f"model {at!r} is gated: accept its terms on the hub and set HF_TOKEN") from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(f"model {at!r} is neither a folder here nor a model on the hub: {ACCEPTED}") from error
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise InputError(
            f"model {at!r} is not a folder here, and the hub cannot be reached{offline} nor is it in the local cache: "
            "connect, or download it elsewhere and give its folder"
        ) from error
    return Path(path), Path(path).name
