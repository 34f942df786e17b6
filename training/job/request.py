"""The request of a training run, and its identity: the digest by which a finished run is found and reused."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator

from core import PROJECT, kinds
from core.backends import Placement
from core.code_digest import SHORT_DIGEST
from core.errors import InputError, validated
from core.files import read_object, read_yaml
from core.model.lineage_file import InputRecord, RequestRecord
from core.model.model_folder import model_digest
from core.parquet import digest_shards, is_there, shard_files, shards, table_of_shard
from core.plugins.config_files import HARDWARE, RECIPES, config_file, config_files, first_stage, is_shipped, recipe_name
from core.plugins.user_code import function_file, module_file, user_code_digest
from core.text.parse import parse_yaml
from core.text.patterns import compile_full_match
from training.algorithms.registry import KEYS, outside_function
from training.config.keys import MODULE, NO_FILE, file_of, leaf_values, read_by, rules, values_of
from training.config.teacher_checks import teacher_folder
from training.config.teacher_settings import BASE, SELF, endpoint_of, located
from training.config.teacher_settings import MODEL as TEACHER

SHA256 = compile_full_match("[0-9a-f]{64}")
TRAIN = "training/config/train.yaml"
SELECTORS = ("recipe", "hardware", "first_stage", "first_stage.recipe")  # keys that choose configuration files
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
    """Turn a path, or what a request says of one, into the values of a record."""
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

    recipe: str = Field(default="luffy", description="A file of training/config/recipe, or the path of your own.")
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
        description="Parquet file of held-out targets, for a recipe whose second stage trains on them. Default: "
        "heldout.parquet beside --targets.",
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
        """Return the overrides with those of the other settings, for the composition of the configuration.

        Raises:
            InputError: an override gives the seed, which the request has.
        """
        if "seed" in values_of(self.overrides):
            raise InputError("--set: seed cannot be set: give it with --seed")
        address = [] if self.ray_address is None else [f"run.ray_address={self.ray_address}"]
        slurm = [f"run.slurm.{key}={json.dumps(value)}" for key, value in leaf_values(self.slurm)]
        where = [] if self.backend == "local" else [f"run.backend={self.backend}", *address, *slurm]
        return [f"seed={self.seed}", *where, *self.overrides]

    def complete(self) -> Self:
        """Return the request with absolute paths and with the digests of its files.

        A relative path is seen from the folder of the process: the user's own.

        Raises:
            InputError: one of the files does not exist, or is not the one whose digest the request gives.
        """
        if not is_there(self.targets.path):
            raise InputError(
                f"targets {self.targets.path}: {_absence(self.targets.path)}: materialize targets/train or give "
                "--targets a parquet"
            )
        if (whole := table_of_shard(self.targets.path)) and len(shard_files(whole)) > 1:
            raise InputError(
                f"targets {self.targets.path}: one of the files of {whole}: give --targets {whole}, which names all of "
                "them"
            )
        if not (self.model.path / "config.json").is_file():
            raise InputError(f"model {self.model.path}: no config.json there: expected a Hugging Face model folder")
        name, heldout = self.recipe_name, self.heldout if has_first_stage(self.recipe) else None
        if heldout and not is_there(heldout.path):
            raise InputError(f"heldout {heldout.path}: {_absence(heldout.path)}: give --heldout a parquet")
        files = file_digests(self.recipe, self.hardware, self.overrides)
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
        """Return the request with digests in the place of its files, as ``lineage.json`` has it."""
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

    def identity(self) -> str:
        """Return the sha256 over what is computed: settings, with the values of our configuration files, and inputs."""
        files = policy_files(self.recipe, self.hardware)
        if any(text.partition("=")[0] in SELECTORS for text in self.overrides):
            files = [file for folder in (RECIPES, HARDWARE) for file in (PROJECT / folder).glob("*.yaml")]
        shipped = sorted({TRAIN, *(str(file.relative_to(PROJECT)) for file in files if is_shipped(file))})
        settings = [(file, read_yaml(PROJECT / file, "configuration") | {"run": None}) for file in shipped]
        return kinds.POLICY.identity(self.computed().model_dump(mode="json"), settings)

    def first_stage(self, recipe: str, overrides: Sequence[str]) -> Self:
        """Return the request of a first stage of ``recipe``: our overrides, if it reads them, then ``overrides``."""
        shared = [text for text in self.overrides if not text.startswith(("first_stage", "run.push_to_hub"))]
        changes = {"recipe": recipe, "overrides": (*read_by(recipe, shared)[0], *overrides), "heldout": None}
        changes["force"] = False  # the folder of the run drops its first stage
        return self.model_copy(update={**changes, "out": self.out / FIRST_STAGE})


def policy_files(recipe: str, hardware: str) -> list[Path]:
    """The files that a run composes: those of its recipe, of that of its first stage, and of its hardware."""
    recipes = filter(None, [recipe, first_stage(recipe)])
    return [*(file for name in recipes for file in config_files(RECIPES, name)), *config_files(HARDWARE, hardware)]


def file_digests(recipe: str, hardware: str, overrides: Sequence[str]) -> dict[str, str]:
    """Return the digests of the user's files that decide what a run computes, by key. Errors as for `named_files`."""
    files = named_files(recipe, hardware, overrides)
    return {key: _file_digest(file) for key, file in files.items()} | _teacher_digest(recipe, hardware, overrides)


def _teacher_digest(recipe: str, hardware: str, overrides: Sequence[str]) -> dict[str, str]:
    """Return the digest of the model that is the teacher; {} without a teacher that is a folder or on a hub."""
    name, folder = None, Path.cwd()
    for file in policy_files(recipe, hardware):
        values = dict(leaf_values(read_yaml(file, "configuration")))
        if name is None and values.get(TEACHER) is not None:
            name, folder = values[TEACHER], file.parent
    if (given := values_of(overrides).get(TEACHER)) is not None:
        name, folder = given, Path.cwd()
    if name in (None, *NO_FILE, BASE, SELF) or endpoint_of(name):
        return {}
    return {TEACHER: model_digest(teacher_folder(located(name, folder)))}


def named_files(recipe: str, hardware: str, overrides: Sequence[str]) -> dict[str, Path]:
    """Return the user's files that decide what a run computes: its recipes, and what they and ``overrides`` name.

    Raises:
        InputError: there is no such file or module.
    """
    files: dict[str, Path] = {}
    stage_recipe, stage_overrides = _first_stage_given(recipe, overrides)
    stage_files = config_files(RECIPES, stage_recipe) if stage_recipe else ()
    given, given_to_stage = values_of(overrides), values_of(stage_overrides)
    for read, replaced in ((policy_files(recipe, hardware), given), (stage_files, given_to_stage)):
        for file in (file for file in read if not is_shipped(file)):
            files[f"recipe {file.stem}"] = file
            for key, value in leaf_values(read_yaml(file, "recipe")):
                if key not in replaced:
                    files |= _named_file(key, value, file.parent, f"recipe {file.stem}: ")
    for key, value in given.items():
        files |= _named_file(key, value, Path.cwd())
    for key, value in given_to_stage.items():
        files |= _named_file(key, value, Path.cwd(), "first stage: ")
    return files


def _first_stage_given(recipe: str, overrides: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the recipe that ``overrides`` give the first stage, if they do, and the overrides of that stage alone."""
    stages = (read_yaml(file, "recipe").get(FIRST_STAGE) for file in config_files(RECIPES, recipe))
    stage, name = next(filter(None, stages), {}), None
    for key, text in values_of(overrides).items():
        if key == FIRST_STAGE or key.startswith(f"{FIRST_STAGE}."):
            value = parse_yaml(text, f"--set {key}")
            changes = value if key == FIRST_STAGE else {key.rpartition(".")[2]: value}
            if isinstance(changes, dict):
                stage, name = stage | changes, changes.get("recipe", name)
    given = stage.get("set")
    return (
        name if isinstance(name, str) else None,
        [text for text in given if isinstance(text, str)] if isinstance(given, list) else [],
    )


def _named_file(key: str, value: object, folder: Path, where: str = "") -> dict[str, Path]:
    """Return the file that ``key`` names, whose path starts from ``folder``; nothing for none, or one of the project's.

    A function's file is that of its module, and a module after ``pkg://`` is one on Python's path.
    """
    name = f"{where}{key}"
    if key in KEYS:
        path = outside_function(key, value, folder, where)
        return {} if path is None else {name: function_file(path)}
    if key in rules().files and isinstance(value, str) and value.startswith(MODULE):
        return _module_file(name, value)
    if (file := file_of(key, value, folder)) is None:
        return {}
    if not is_there(file):
        raise InputError(f"{name}: {file}: {_absence(file)}: give the path of a file")
    return {name: file}


def _module_file(key: str, value: str) -> dict[str, Path]:
    """Return the file of a module; nothing for a module of the project, which the digest of its code covers."""
    name = value.removeprefix(MODULE)
    file = module_file(name)
    if file is None:
        raise InputError(f"{key}: {value}: no such module: put its folder on PYTHONPATH, or give the path of a file")
    return {} if file.is_relative_to(PROJECT / name.split(".")[0]) else {key: file}


def _file_digest(file: Path) -> str:
    """Return the digest of a file that a key names; a Python file's digest covers the modules beside it too."""
    return user_code_digest(file) if file.suffix == ".py" else digest_shards(file)


def _absence(path: Path) -> str:
    """Say why ``path`` names no file."""
    return "is a folder" if path.is_dir() else "no such file"


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


def has_first_stage(recipe: str) -> bool:
    """Return whether a recipe trains in two stages, the second of them on held-out targets."""
    return first_stage(recipe) is not None


def targets_digest(path: Path) -> str:
    """Return the digest of the rows that the preparation wrote into the file, or otherwise of the file's bytes."""
    import pyarrow.parquet as pq

    try:
        metadata: Mapping[bytes, bytes] = pq.read_metadata(shards(path)[0]).metadata or {}
    except (OSError, ValueError) as error:
        raise InputError(f"targets {path}: not a readable parquet file ({error})") from error
    if b"rows_digest" in metadata:
        return metadata[b"rows_digest"].decode()
    return digest_shards(path)
