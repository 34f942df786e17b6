"""The model under evaluation: a Hugging Face folder or a hub id, and the digest that names it on a scorecard."""

from pathlib import Path

from core.manifest import MANIFEST, parse_manifest
from core.model_files import HUB_ID, check_model, download_model, model_digest


def resolve_model(name: str) -> Path:
    """The checked folder of ``name``: a folder, or a hub id such as ``Qwen/Qwen2.5-Math-7B@main``.

    Raises:
        InputError: it is neither, or files of the model are missing or damaged.
    """
    folder = Path(name).expanduser()
    if not folder.exists() and (hub := HUB_ID(name)):
        folder, _ = download_model(hub["repository"], hub["revision"])
    check_model(folder, chat_template=False)
    return folder


def checkpoint_digest(model: Path) -> str:
    """The digest in the model's ``lineage.json``, else that of its files (which is also what models/base has)."""
    return parse_manifest(model).checkpoint_digest if (Path(model) / MANIFEST).is_file() else model_digest(model)
