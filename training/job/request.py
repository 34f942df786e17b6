"""What a training run is asked to compute, and its identity: the digest by which a finished run is found and reused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.code_digest import PROJECT, RECIPES, code_digest, identity, policy_code
from core.errors import InputError
from core.files import digest_file, read_yaml
from core.model.manifest import InputRecord, RequestRecord
from core.model.model_folder import model_digest
from training.config.keys import read_by


@dataclass(frozen=True)
class TrainingRequest:
    """Everything that decides the weights of a run. A checkpoint of an equal identity is reused."""

    recipe: str
    hardware: str
    overrides: tuple[str, ...]
    seed: int
    targets: InputRecord
    model: InputRecord
    heldout: InputRecord | None = None  # targets of other prompts, for a recipe whose second stage trains on them

    @classmethod
    def of_files(
        cls,
        *,
        recipe: str,
        hardware: str,
        overrides: Sequence[str],
        seed: int,
        targets: Path,
        model: Path,
        heldout: Path | None = None,
    ) -> "TrainingRequest":
        """The request to train the model in folder ``model`` on the parquet file ``targets``.

        Raises:
            InputError: one of them does not exist.
        """
        if not Path(targets).is_file():
            raise InputError(f"targets {targets}: no such file: materialize targets/train or give --targets a parquet")
        if not (Path(model) / "config.json").is_file():
            raise InputError(f"model {model}: no config.json there: expected a Hugging Face model folder")
        if not has_first_stage(recipe):
            heldout = None
        return cls(
            recipe,
            hardware,
            tuple(overrides),
            seed,
            InputRecord(path=targets, digest=targets_digest(targets)),
            InputRecord(path=model, digest=model_digest(model)),
            None if heldout is None else InputRecord(path=heldout, digest=targets_digest(heldout)),
        )

    def record(self) -> RequestRecord:
        """The request with digests in the place of its files, as ``lineage.json`` has it."""
        return RequestRecord(
            recipe=self.recipe,
            hardware=self.hardware,
            overrides=self.overrides,
            seed=self.seed,
            targets_digest=self.targets.digest,
            model_digest=self.model.digest,
            heldout_digest=self.heldout.digest if self.heldout else None,
        )

    def computed(self) -> RequestRecord:
        """The record without ``run.*``: those keys say how a run is carried out, not what it computes."""
        overrides = tuple(text for text in self.overrides if not text.lstrip("+").startswith("run."))
        return self.record().model_copy(update={"overrides": overrides})

    def code_digest(self, project: Path = PROJECT) -> str:
        """sha256 over the code and the configuration files that serve this request."""
        return code_digest(*policy_code(self.recipe, self.hardware, self.overrides, project=project), project=project)

    def identity(self, project: Path = PROJECT) -> str:
        """sha256 over what is computed and the code that computes it."""
        return identity(self.computed().model_dump(mode="json"), self.code_digest(project))

    def first_stage(self, recipe: str, overrides: Sequence[str]) -> "TrainingRequest":
        """The request of a first stage of ``recipe``: our overrides, as far as it reads them, then ``overrides``."""
        shared = [text for text in self.overrides if not text.startswith(("first_stage", "run.push_to_hub"))]
        return replace(self, recipe=recipe, overrides=(*read_by(recipe, shared)[0], *overrides), heldout=None)


def has_first_stage(recipe: str) -> bool:
    """Whether a recipe trains in two stages, the second of them on held-out targets."""
    file = PROJECT / RECIPES / f"{recipe}.yaml"
    return file.is_file() and "first_stage" in read_yaml(file, "recipe")


def targets_digest(path: Path) -> str:
    """The digest of the rows that the preparation wrote into the file, or else the digest of the file's bytes."""
    import pyarrow.parquet as pq

    try:
        metadata: Mapping[bytes, bytes] = pq.read_metadata(path).metadata or {}
    except (OSError, ValueError) as error:
        raise InputError(f"targets {path}: not a readable parquet file ({error})") from error
    return metadata[b"rows_digest"].decode() if b"rows_digest" in metadata else digest_file(path)
