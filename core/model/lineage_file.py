"""``lineage.json``, the manifest in every checkpoint: its training inputs, and the digest of its files.

All paths are relative to the checkpoint, so the file is portable.
"""

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from core.errors import InputError
from core.files import write_json
from core.model.model_folder import model_digest

MANIFEST = "lineage.json"


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Moment = Annotated[str, AfterValidator(_moment)]  # ISO 8601


class Record(BaseModel):
    """A part of the manifest; keys that this version does not know are ignored."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class InputRecord(Record):
    """A file or folder that a training read."""

    path: Path  # in a manifest it is relative to the checkpoint's folder, so that a storage can be moved
    digest: str

    def seen_from(self, checkpoint: Path) -> Self:
        """Make the paths relative to ``checkpoint``; keep only the name of a file without a common folder."""
        path, folder = self.path.resolve(), checkpoint.resolve()
        shared = os.path.commonpath([path, folder]) != path.anchor
        return self.model_copy(update={"path": Path(os.path.relpath(path, folder) if shared else path.name)})

    def locate(self, checkpoint: Path) -> Path:
        """Return the path on this machine of the file that the manifest of ``checkpoint`` names."""
        return Path(os.path.normpath(checkpoint.resolve() / self.path))


class TargetsRecord(InputRecord):
    """The targets, with what their preparation wrote into the file."""

    rows: int
    metadata: dict[str, str]


class RequestRecord(Record):
    """The settings that decided the weights of a training."""

    recipe: str
    hardware: str
    overrides: tuple[str, ...]
    seed: int
    targets_digest: str
    model_digest: str
    heldout_digest: str | None = None
    files: dict[str, str] = {}  # the digest of each file that an override names, by its key


class CodeRecord(Record):
    """The checkout that trained: its commit and whether it had changes (None outside of git), and the code's digest.

    ``number``: the policies' (`core.kinds`); only policies of one number are comparable.
    """

    commit: str | None
    dirty: bool | None
    digest: str
    number: int = 1


class StageRecord(Record):
    """The facts of one training: the whole run or its first stage."""

    identity: str
    request: RequestRecord
    targets: TargetsRecord
    attempts: int
    device_hours: float
    steps: int
    checkpoint_digest: str = ""  # filled in by `write_manifest`


class Manifest(StageRecord):
    """The content of ``lineage.json``."""

    config: dict[str, Any]  # the resolved configuration
    base_model: InputRecord
    upstream: dict[str, Any]  # what the caller says about where the inputs came from
    code: CodeRecord  # of the last attempt
    earlier_code: list[CodeRecord] = []  # of attempts before it, where it was another one
    packages: dict[str, str]
    started: Moment
    finished: Moment | None
    last_step: dict[str, float]  # metrics
    ledger: dict[str, dict[str, int]] | None = None  # targets by source and verdict; None: no ledger was kept
    first_stage: StageRecord | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that ``lineage.json`` holds."""
        absent = {name for name in ("ledger", "first_stage", "earlier_code") if getattr(self, name) in (None, [])}
        return self.model_dump(mode="json", exclude=absent)


def write_manifest(checkpoint: Path, manifest: Manifest) -> None:
    """Write ``lineage.json`` into ``checkpoint`` with the digest of the files next to it."""
    complete = manifest.model_copy(update={"checkpoint_digest": model_digest(Path(checkpoint))})
    write_json(complete.to_json(), checkpoint / MANIFEST)


def parse_manifest(checkpoint: Path) -> Manifest:
    """Return the manifest of a checkpoint as it stands in its file; InputError if there is none or it is damaged."""
    path = Path(checkpoint) / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"checkpoint {checkpoint}: no {MANIFEST} in it, so its origin is unknown: give the policy/ folder of a "
            "training run"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "not JSON"
        raise InputError(f"{path}: {where}: {first['msg']}: restore the checkpoint or train again") from error


def read_manifest(checkpoint: Path) -> Manifest:
    """Read the manifest of a checkpoint and check it against the files next to it; InputError if they do not match."""
    manifest = parse_manifest(checkpoint)
    if manifest.checkpoint_digest != model_digest(Path(checkpoint)):
        raise InputError(f"checkpoint {checkpoint}: its files are not those that {MANIFEST} describes: train again")
    return manifest
