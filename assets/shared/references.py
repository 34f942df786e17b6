"""What an asset hands to the next one: the path of its data, the digest of the data, and some facts about it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import dagster as dg
from pydantic import BaseModel, ConfigDict

from core.code_digest import SHORT_DIGEST, identity
from core.errors import InputError
from core.model.lineage_file import parse_manifest
from core.model.model_folder import model_files
from evaluation.promotion.records import Checkpoint, Contenders

REFERENCE = "reference"  # entry of a materialization: the reference as JSON
MAKER = ".code_digest"  # file in the folder of a result: the digest of the code that made it
MADE_BY = "luffy/made_by"  # tag of a materialization: its start


def made_by(path: Path) -> str:
    """Return the digest of the code that made the result at ``path``, a folder or a file in it; "" if it is unknown."""
    files = (folder / MAKER for folder in (path, path.parent))
    return next((file.read_text(encoding="utf-8") for file in files if file.is_file()), "")


class Reference(BaseModel):
    """The data of an asset."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    path: str
    digest: str

    @property
    def short(self) -> str:
        return self.digest[:SHORT_DIGEST]

    def result(self, metadata: Mapping[str, Any], asset_key: dg.AssetKey | None = None) -> dg.MaterializeResult[Self]:
        """Return the result of an asset with this data and what the UI shows of it; the digest is its version.

        The reference itself is among that, so that the steps of the run find what it has made. Dagster records the
        present code as ``code_version``; a tag says what code made the data.

        ``asset_key``: The asset, if its op has several.
        """
        version = dg.DataVersion(self.digest)
        shown = {**metadata, REFERENCE: self.model_dump(mode="json")}
        maker = self.made_by()
        tags = {MADE_BY: maker[:SHORT_DIGEST]} if maker else None
        return dg.MaterializeResult(asset_key=asset_key, value=self, data_version=version, metadata=shown, tags=tags)

    def made_by(self) -> str:
        """Return the digest of the code that made the data; "" if it is unknown."""
        return made_by(Path(self.path))

    def require_unchanged(self) -> None:
        """Raise InputError if the data is a folder of the user's that has changed since."""


class GeneratedReference(Reference):
    """Reference to the result of targets/generated."""

    request: str  # identity of what was asked for; "" where the teacher's content is not known beforehand
    rows: int
    requested: int  # traces; more than rows where a budget ended


class PreparedReference(Reference):
    """Reference to the result of targets/prepared."""

    rows: int
    read: int  # traces
    source: list[str]
    source_digest: str
    profile: str  # file of one flat row per target
    filter_counts: list[tuple[str, int]]  # title of a filter, traces left after it
    seed: int


class TrainReference(Reference):
    """Reference to the result of targets/train."""

    rows: int
    heldout_rows: int
    heldout: str  # file
    profile: str  # file
    previous: str | None  # the profile of the version before
    prepared_digest: str
    source: list[str]
    source_digest: str


class ModelReference(Reference):
    """Reference to the result of models/base."""

    source: str
    stamp: str | None = None  # `model_stamp` of the folder, which may be the user's own
    parameters: int
    architecture: str
    layers: int | None = None
    width: int | None = None
    vocabulary: int | None = None
    context_tokens: int | None = None

    def require_unchanged(self) -> None:
        if self.stamp is not None and self.stamp != model_stamp(Path(self.path)):
            raise InputError(
                f"models/base: the files in {self.path} have changed since it was materialized; materialize it again"
            )


def model_stamp(folder: Path) -> str:
    """Return what changes when a file of the model in ``folder`` is written: a digest of their sizes and times."""
    stats = [(file.name, file.stat()) for file in model_files(folder)]
    return identity([(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats])


class SuiteReference(Reference):
    """Reference to the result of benchmarks/suite."""

    digests: dict[str, str]  # of the problems and the number of samples, by benchmark


class PolicyReference(Reference):
    """Reference to the result of training/policy."""

    base: str  # digest of the model that it was trained from
    metrics: str  # file of the step metrics

    def made_by(self) -> str:
        return parse_manifest(Path(self.path)).code.digest


class ScoresReference(Reference):
    """Reference to the result of evals/* and ood/*: one benchmark."""

    checkpoint: str  # digest of the model
    problems: str  # digest, as in SuiteReference
    accuracy: float
    sequential: bool = False  # as in ScoreFile
    opponent: Checkpoint | None = None  # the model that answered the same problems as a policy, with its score


class ScorecardReference(Reference):
    """Reference to the result of report/scorecard."""

    contenders: Contenders
    inspect_logs: str | None = None  # folder


class ChampionReference(Reference):
    """Reference to the result of registry/champion."""

    promoted: bool
