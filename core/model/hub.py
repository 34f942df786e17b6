"""Access the Hugging Face hub: uploads, datasets, and errors as a user can understand them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

from core.errors import InputError, first_line


@contextmanager
def hub_errors(where: str, advice: str) -> Iterator[None]:
    """Turn what the hub, its client or the network refuse into an InputError with their reason and ``advice``."""
    try:
        yield
    except _refusals() as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: the hub refused ({' '.join(str(error).split())[:600]}); {advice}") from error


def _refusals() -> tuple[type[Exception], ...]:
    """Return the exceptions that the hub's client raises if the hub, the network or the client itself refuses."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    # Its bases are OSError and the error of the HTTP client, whose package differs between versions of the hub's.
    bases = cast("tuple[type[Exception], ...]", HfHubHTTPError.__bases__)
    return (*bases, OfflineModeIsEnabled, ValueError)


def upload_folder(
    folder: Path,
    repository: str,
    kind: Literal["model", "dataset"],
    *,
    where: str,
    advice: str,
    private: bool = True,
    replace: str | None = None,
) -> None:
    """Upload ``folder`` to ``repository``, which is created if it does not exist; InputError if the hub refuses.

    ``replace``: a pattern of the files of the repository that go if ``folder`` does not have them.
    """
    from huggingface_hub import HfApi

    with hub_errors(where, advice):
        api = HfApi()
        api.create_repo(repository, repo_type=kind, exist_ok=True, private=private)
        api.upload_folder(folder_path=folder, repo_id=repository, repo_type=kind, delete_patterns=replace)


def load_split(repository: str, subset: str | None, split: str | None, revision: str | None, *, where: str) -> Any:
    """Load a split of a dataset with `datasets`; InputError that begins with ``where`` if that fails."""
    import datasets

    try:
        return datasets.load_dataset(repository, subset, split=split, revision=revision)
    except _refusals() as error:  # not found, no network, gated, no such subset or split
        raise InputError(
            f"{where} (split {split!r}, subset {subset or 'default'}, revision {revision or 'main'}) cannot be loaded: "
            f"{first_line(error)}"
        ) from error
