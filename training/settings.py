"""The section training: which recipe trains on which hardware, and the keys of the training's own configuration."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from core.errors import InputError
from core.plugins.config_files import HARDWARE, RECIPES, below_project, config_file
from core.settings import FUNCTION, Section, UserPath, user_path, yaml_path
from core.text.parse import parse_yaml
from core.text.patterns import compile_full_match
from training.config.teacher_settings import MODEL, located
from training.config.verl_keys import leaf_values

PLAIN = compile_full_match(r"[A-Za-z0-9_./@%+:?-]*")  # a text that YAML reads without quotes
# Keys that name folders of a run, which the storage chooses.
RUN_FOLDERS = ("paths.", "trainer.default_local_dir", "trainer.rollout_data_dir", "trainer.validation_data_dir")


def _file_of(folder: str) -> AfterValidator:
    """Accept only what `config_file` finds for ``folder``; a path becomes an absolute one below the project."""

    def find(name: str) -> str:
        given = below_project(name)
        try:
            config_file(folder, given)
        except InputError as error:
            raise ValueError(str(error)) from None
        return given

    return AfterValidator(find)


def _located(value: Any, folder: Path, key: str = "") -> Any:
    """Return the value of ``key`` with the files and functions of the user's that it names as absolute paths."""
    if isinstance(value, Mapping):
        return {name: _located(part, folder, f"{key}.{name}".lstrip(".")) for name, part in value.items()}
    if isinstance(value, list):
        return [_located(part, folder, key) for part in value]
    if not isinstance(value, str):
        return value
    if key == MODEL:
        return located(value, folder)
    name, equals, text = value.partition("=")
    if equals and key.startswith("first_stage"):  # its own list of KEY=VALUE
        given = parse_yaml(text, value)
        path = _located(given, folder, name)
        return value if path == given else f"{name}={_text(path)}"
    return user_path(value, folder) if FUNCTION(value) or (folder / value[:255]).is_file() else value


def _settable(config: dict[str, Any]) -> dict[str, Any]:
    """Return ``config``; ValueError for a key that says where a run writes, or is not nested."""
    if dotted := next((name for name in _names(config) if "." in str(name)), None):
        raise ValueError(f"training.config.{dotted}: expected nested keys, as {{{dotted.replace('.', ': {', 1)}: …}}}}")
    for key, _ in leaf_values(config):
        if key.startswith(RUN_FOLDERS):
            raise ValueError(f"training.config.{key} says where a run writes, which storage.root decides")
    return config


def _names(config: Mapping[str, Any]) -> Iterator[str]:
    for name, value in config.items():
        yield name
        if isinstance(value, Mapping):
            yield from _names(value)


class TrainingSettings(Section):
    """Settings of training/policy."""

    recipe: Annotated[str, UserPath(yaml_path), _file_of(RECIPES)] = Field(
        default="luffy", description="Name of a file in training/config/recipe, or the path of a recipe file."
    )
    hardware: Annotated[str, _file_of(HARDWARE)] = Field(
        default="cpu", description="Name of a file in training/config/hardware."
    )
    config: Annotated[dict[str, Any], UserPath(_located), AfterValidator(_settable)] = Field(
        default={},
        description="Keys of the training configuration, nested: training.config.machine.attention=sdpa, "
        "training.config.rollouts.type=separate_async or training.config.data.order=easy_first.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the training.")
    ignore_checks: bool = Field(
        default=False,
        description="Train on targets even if a blocking check failed or was never evaluated on them. The lineage "
        "names the check.",
    )

    @property
    def overrides(self) -> list[str]:
        """``config`` as KEY=VALUE."""
        return [f"{key}={_text(value)}" for key, value in leaf_values(self.config)]


def _text(value: Any) -> str:
    """Return ``value`` as YAML reads it."""
    return value if isinstance(value, str) and PLAIN(value) else json.dumps(value, ensure_ascii=False)
