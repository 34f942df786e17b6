"""The request of a training run, and its identity: the digest by which a finished run is found and reused."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator

from core import kinds
from core.backends import Placement
from core.code_digest import SHORT_DIGEST
from core.errors import InputError, validated
from core.files import read_object
from core.model.lineage_file import InputRecord, RequestRecord
from core.model.model_folder import model_digest
from core.parquet import digest_shards, is_there, readable, shard_files, shards, table_of_shard
from core.plugins.config_files import RECIPES, config_file, recipe_name, trains_on_heldout
from core.plugins.user_code import user_code_digest
from core.text.patterns import compile_full_match
from training.config.compose import METHOD, RECIPE, Composed, absence, compose
from training.config.overrides import key_of, read_by
from training.config.run import Run
from training.config.teacher_checks import teacher_folder
from training.config.teacher_settings import BASE, SELF, endpoint_of
from training.config.teacher_settings import MODEL as TEACHER
from training.config.verl_keys import leaf_values

SHA256 = compile_full_match("[0-9a-f]{64}")
ADVICE = "give --targets a parquet of targets"
FIRST_STAGE = "first_stage"  # the folder of the first stage in that of the run


class _GivenRecord(InputRecord, extra="forbid"):
    """What a request says of a file or folder; `TrainingRequest.complete` checks the digest, or computes it."""

    digest: str = ""

    @field_validator("digest")
    @classmethod
    def _can_be_one(cls, digest: str) -> str:
        if digest and not SHA256(digest):
            raise ValueError("expected a sha256 in hex: leave the digest out, and it is computed")
        return digest


def _as_record(value: Any) -> Any:
    """Accept a path, or a mapping with a path and its digest, as the values of a record."""
    if isinstance(value, str | Path):
        return {"path": value, "digest": ""}
    if isinstance(value, dict):
        return validated(_GivenRecord, value, "").model_dump()
    if not isinstance(value, InputRecord):
        raise ValueError(f"got {value!r:.80}, expected a path, or an object with path and digest")
    return value


def _object_in(value: Any) -> Any:
    return read_object(Path(value)) if isinstance(value, str) else value


Input = Annotated[InputRecord, BeforeValidator(_as_record)]


class TrainingRequest(Placement):
    """A training: all settings that decide the weights, which identify a checkpoint, and the run's folder."""

    recipe: str = Field(default="luffy", description="A name in training/config/recipe, or the path of a recipe file.")
    hardware: str = Field(default="cpu", description="A file of training/config/hardware.")
    overrides: tuple[str, ...] = Field(
        default=(),
        description="Override a configuration key. Repeatable.",
        json_schema_extra={"cli": "--set", "metavar": "KEY=VALUE"},
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="Random seed.")
    targets: Input = Field(description="Parquet file of targets/train.", json_schema_extra={"metavar": "FILE.parquet"})
    model: Input = Field(description="Hugging Face folder of the base model.", json_schema_extra={"metavar": "DIR"})
    heldout: Input | None = Field(
        default=None,
        description="Parquet file of held-out targets, for a recipe with a second stage that trains on them. Default: "
        "heldout.parquet next to --targets.",
        json_schema_extra={"metavar": "FILE.parquet"},
    )
    out: Path = Field(
        description="Folder of the run. An interrupted run in this folder is resumed.",
        json_schema_extra={"metavar": "DIR"},
    )
    upstream: Annotated[Mapping[str, Any], BeforeValidator(_object_in)] = Field(
        default={},
        description="JSON file that records where the targets and the model came from.",
        json_schema_extra={"cli": "--lineage", "metavar": "JSON"},
    )
    force: bool = Field(
        default=False,
        description="Train again, even if the folder already has the policy of this run. A forced training that was "
        "interrupted is resumed.",
    )
    files: Mapping[str, str] = Field(
        default={}, description="Digests of the files that overrides name, by key.", json_schema_extra={"hidden": True}
    )

    @property
    def recipe_name(self) -> str:
        """What the recipe is called, wherever its file is."""
        return recipe_name(self.recipe)

    def config_overrides(self) -> list[str]:
        """Return the overrides with the seed, for the composition of the configuration.

        Raises:
            InputError: an override gives the seed, which the request has.
        """
        if "seed" in map(key_of, self.overrides):
            raise InputError("--set: seed cannot be set: give it with --seed")
        return [f"seed={self.seed}", *self.overrides]

    def complete(self) -> Self:
        """Return the request with absolute paths and with the digests of its files.

        Relative paths are resolved against the current folder.

        Raises:
            InputError: one of the files does not exist, or does not have the digest that the request gives.
        """
        if not is_there(self.targets.path):
            raise InputError(
                f"targets {self.targets.path}: {absence(self.targets.path)}: materialize targets/train or give "
                "--targets a parquet"
            )
        if (whole := table_of_shard(self.targets.path)) and len(shard_files(whole)) > 1:
            raise InputError(
                f"targets {self.targets.path}: one of the files of {whole}: give --targets {whole}, which names all of "
                "them"
            )
        if not (self.model.path / "config.json").is_file():
            raise InputError(f"model {self.model.path}: no config.json there: expected a Hugging Face model folder")
        name = self.recipe_name
        heldout = self.heldout if trains_on_heldout(self.recipe) else None
        if heldout and not is_there(heldout.path):
            raise InputError(f"heldout {heldout.path}: {absence(heldout.path)}: give --heldout a parquet")
        files = file_digests(self.composed())
        for key in sorted(self.files.keys() & files.keys()):
            _check_digest(key, self.files[key], files[key])
        return self.model_copy(
            update={
                "out": _absolute(self.out),
                "recipe": self.recipe if self.recipe == name else str(config_file(RECIPES, self.recipe)),
                "files": files,
                "targets": _with_digest("targets", self.targets, targets_digest),
                "model": _with_digest("model", self.model, model_digest),
                "heldout": heldout and _with_digest("heldout", heldout, targets_digest),
            }
        )

    def record(self) -> RequestRecord:
        """Return the request with digests instead of its files, as in ``lineage.json``."""
        return RequestRecord(
            recipe=self.recipe_name,
            hardware=self.hardware,
            overrides=self.overrides,
            seed=self.seed,
            targets_digest=self.targets.digest,
            model_digest=self.model.digest,
            heldout_digest=self.heldout.digest if self.heldout else None,
            files=dict(self.files),
        )

    def computed(self) -> RequestRecord:
        """Return the record without ``run.*``: those keys say how a run is carried out, not what it computes."""
        overrides = tuple(text for text in self.overrides if not text.startswith("run."))
        return self.record().model_copy(update={"overrides": overrides})

    def composed(self) -> Composed:
        """Return the run that the settings describe, and the user's files that it names."""
        return compose(self.recipe, self.hardware, self.overrides)

    def identity(self) -> str:
        """Return the sha256 over what is computed: the resolved settings and the digests of the inputs."""
        composed = self.composed()
        inputs = self.targets.digest, self.model.digest, self.heldout and self.heldout.digest
        files = {key: digest for key, digest in self.files.items() if not key.startswith(RECIPE)}  # their values count
        stages = [_settings(run, files) for run in (composed.run, composed.first_stage) if run]
        return kinds.POLICY.identity(stages, self.seed, files, inputs)

    def first_stage(self, recipe: str, overrides: Sequence[str]) -> Self:
        """Return the request of a first stage of ``recipe``: our overrides, if it reads them, then ``overrides``."""
        shared = [text for text in self.overrides if not text.startswith(("first_stage", "run.push_to_hub"))]
        changes = {"recipe": recipe, "overrides": (*read_by(recipe, shared)[0], *overrides), "heldout": None}
        changes["force"] = False  # the folder of the run drops its first stage
        return self.model_copy(update={**changes, "out": self.out / FIRST_STAGE})


def file_digests(composed: Composed) -> dict[str, str]:
    """Return the digests of the user's files, and of a teacher's folder, by the keys that name them."""
    digests = {key: _file_digest(file) for key, file in composed.files.items()}
    name = (composed.run.method.get("teacher") or {}).get("model")
    if name in (None, BASE, SELF) or endpoint_of(name):
        return digests
    return digests | {TEACHER: model_digest(teacher_folder(name))}


def _settings(run: Run, files: Iterable[str]) -> dict[str, Any]:
    """Return what ``run`` computes: its values by key, without the paths of ``files``, which have digests."""
    values = dict(leaf_values(run.model_dump(exclude={"run", "first_stage", "seed"})))
    named = {key: str(values[key]).rpartition(":")[2] if key == METHOD else None for key in files if key in values}
    return values | named


def _file_digest(file: Path) -> str:
    """Return the digest of a file that a key names; a Python file's digest covers the neighbouring modules too."""
    return user_code_digest(file) if file.suffix == ".py" else digest_shards(file)


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _with_digest(key: str, record: InputRecord, digest: Callable[[Path], str]) -> InputRecord:
    """Return ``record`` with the digest of its file; InputError if it gives the digest of another one."""
    update = {"path": _absolute(record.path), "digest": digest(record.path)}
    if record.digest:
        _check_digest(f"{key} {record.path}", record.digest, update["digest"])
    return record.model_copy(update=update)


def _check_digest(what: str, given: str, digest: str) -> None:
    """Raise InputError for a file, or a folder, that has another ``digest`` than the one that a request gives it."""
    if given != digest:
        raise InputError(
            f"{what}: has changed: its digest is {digest[:SHORT_DIGEST]}…, and the request gives "
            f"{given[:SHORT_DIGEST]}…: bring back what it was, or leave the digest out and give another folder for the "
            "run"
        )


def targets_digest(path: Path) -> str:
    """Return the digest of the rows that the preparation wrote into the file, or otherwise of the file's bytes."""
    import pyarrow.parquet as pq

    with readable(path, ADVICE):
        metadata: Mapping[bytes, bytes] = pq.read_metadata(shards(path)[0]).metadata or {}
    if b"rows_digest" in metadata:
        return metadata[b"rows_digest"].decode()
    return digest_shards(path)
