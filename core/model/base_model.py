"""Turn the name of a base model (embedded, a folder, a GGUF file, a hub id) into a checked Hugging Face folder.

Every file is checked here, so that you learn of a mistake at once and not ten minutes later from a Ray worker. Both
interpreters use this module, so it does not import torch.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from core import PROJECT
from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.existing_python import TRAIN_PYTHON
from core.files import atomic_folder, digest_bytes, digest_file, read_object, set_aside, write_json
from core.model.context_extension import ContextExtension
from core.model.model_folder import HUB_ID, check_model, download_model, model_digest, model_files
from core.program import run_module

EMBEDDED = "embedded"
SHIPPED = PROJECT / "training/embedded_model/model"

ACCEPTED = (
    f"give {EMBEDDED!r}, a Hugging Face folder (config.json, weights, tokenizer), a .gguf file, or a hub id "
    "such as Qwen/Qwen2.5-Math-7B"
)


@dataclass(frozen=True)
class BaseModel:
    """A checked model folder, the sha256 of its content, and the commit of a hub model."""

    path: Path
    digest: str
    source: str
    revision: str | None


def resolve_base(
    source: str,
    out_root: Path,
    *,
    revision: str | None = None,
    context: ContextExtension | None = None,
    train_python: Path | str | None = None,
) -> BaseModel:
    """Find or create the folder of the model ``source``, and check it.

    Args:
        source: "embedded", a folder, a ``.gguf`` file, or a hub id.
        out_root: where a copy of the embedded model, a converted GGUF file or a model with another context goes. Its
            folder is named after the digest of its content, that of a model with another context after its settings
            and its files' paths, so it is written once and never changes.
        revision: branch, tag or commit of a hub id.
        context: settings that replace those of its config.json.
        train_python: the interpreter that converts GGUF files with transformers (default: that of ``.venv-train``).

    Raises:
        InputError: there is no such model, or something in it is missing or damaged.
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
    elif name := HUB_ID(source):
        folder, commit = download_model(name["repository"], revision or name["revision"])
    else:
        raise InputError(f"model {source!r} does not exist: {ACCEPTED}")
    check_model(folder)
    if context:
        folder = _extend(folder, Path(out_root), context)
    return BaseModel(folder, model_digest(folder), source, commit)


def _copy(folder: Path, out_root: Path) -> Path:
    """Copy the model in ``folder`` to a folder below ``out_root`` named after its digest; complete or absent.

    A copy that was damaged meanwhile is set aside.
    """
    digest = model_digest(folder)
    target = out_root / f"{EMBEDDED}-{digest[:SHORT_DIGEST]}"
    if target.exists() and model_digest(target) != digest:
        set_aside(target)
    if not target.exists():
        with atomic_folder(target) as temporary:
            for file in model_files(folder):
                shutil.copyfile(file, temporary / file.name)
    return target


def _extend(folder: Path, out_root: Path, context: ContextExtension) -> Path:
    """Make a folder with links to the files of the model in ``folder`` and a config.json with another ``context``."""
    name = "config.json"
    config, where = read_object(folder / name), str(folder / name)
    text = config.get("text_config")  # a model that also sees has it
    config = {**config, "text_config": context.applied_to(text, where)} if text else context.applied_to(config, where)
    files = [file for file in model_files(folder) if file.name != name]
    content = json.dumps([config, *map(str, (file.resolve() for file in files))])
    target = out_root / f"{folder.name}-{digest_bytes(content.encode())[:SHORT_DIGEST]}"
    if not target.exists():
        with atomic_folder(target) as temporary:
            write_json(config, temporary / name)
            for file in files:
                (temporary / file.name).symlink_to(file.resolve())
    return target


def _convert(file: Path, out_root: Path, train_python: Path) -> Path:
    """Convert a GGUF file in the training interpreter, once per content."""
    with file.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise InputError(f"{file}: not a GGUF file: {ACCEPTED}")
    if not train_python.is_file():
        raise InputError(
            f"{train_python}: no training interpreter there, which converts {file.name}: run `luffy setup`"
        )
    target = out_root / f"{file.stem}-{digest_file(file)[:SHORT_DIGEST]}"
    if not target.exists():
        with atomic_folder(target) as temporary:
            names = str(file), str(temporary)
            run_module("training.export.convert", *names, python=train_python, HF_HUB_OFFLINE="1")
    return target
