"""Settings of an installation: a profile (YAML) and environment variables over it.

``LUFFY_PROFILE`` names the profile: a file of ``pipelines/profiles`` without its ending, or a path. A variable
``LUFFY__SECTION__KEY`` (say ``LUFFY__TRAINING__SEED=1``) overrides one key; its value is YAML. Sections and keys are
those of the classes below; their values are the defaults that the Launchpad shows.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assets.shared.options import (
    BenchmarkOptions,
    EvaluationOptions,
    ExperimentOptions,
    ModelOptions,
    PromotionOptions,
    RetentionOptions,
    SplitOptions,
    TargetOptions,
    TrainingOptions,
    explain,
)
from core.code import PROJECT
from core.errors import InputError
from evaluation.benchmarks.registry import Benchmark, load_suite
from pipelines.definitions.notices import NotifySettings

PROFILES = PROJECT / "pipelines" / "profiles"
PROFILE = "LUFFY_PROFILE"
PREFIX = "LUFFY__"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StorageSettings(_Section):
    root: str = Field(default="var/storage", description="folder of all outputs; a relative one lies below the project")


class InterpreterSettings(_Section):
    python: str = Field(default=".venv-train/bin/python", description="the Python with torch, verl and vLLM")
    offline: bool = Field(default=True, description="training and generation never ask the Hugging Face hub")
    grace_seconds: float = Field(default=30.0, gt=0, description="from TERM to KILL when a step is cancelled")


class SuiteSettings(_Section):
    """Which benchmarks there are decides which assets there are, so it is no Launchpad option."""

    name: str = Field(default="embedded", description="one of evaluation/benchmarks/suites, or a YAML file")
    only: tuple[str, ...] = Field(default=(), description="names of benchmarks; none: all")


class ScheduleSettings(_Section):
    retrain: str = Field(default="0 3 * * 1", description="cron of the weekly run")
    timezone: str = "UTC"


class Settings(_Section):
    """Everything that an installation can set, by section."""

    storage: StorageSettings = StorageSettings()
    interpreter: InterpreterSettings = InterpreterSettings()
    targets: TargetOptions = TargetOptions()
    split: SplitOptions = SplitOptions()
    model: ModelOptions = ModelOptions()
    suite: SuiteSettings = SuiteSettings()
    benchmarks: BenchmarkOptions = BenchmarkOptions()
    training: TrainingOptions = TrainingOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
    experiments: ExperimentOptions = ExperimentOptions()
    promotion: PromotionOptions = PromotionOptions()
    schedule: ScheduleSettings = ScheduleSettings()
    notify: NotifySettings = NotifySettings()
    retention: RetentionOptions = RetentionOptions()

    def benchmark_suite(self) -> list[Benchmark]:
        """The benchmarks that are assets; InputError for a suite or a name that does not exist."""
        local = PROJECT / self.suite.name
        suite = load_suite(local if local.is_file() else self.suite.name)
        if unknown := sorted(set(self.suite.only) - {benchmark.name for benchmark in suite}):
            known = ", ".join(benchmark.name for benchmark in suite)
            raise InputError(f"suite.only: {', '.join(unknown)}: not in suite {self.suite.name}, which has {known}")
        return [benchmark for benchmark in suite if not self.suite.only or benchmark.name in self.suite.only]


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The profile that the environment names, with the environment's overrides.

    Raises InputError that names the profile or variable, the key and what was expected.
    """
    environment = os.environ if environment is None else environment
    profile = _profile(environment.get(PROFILE) or "embedded")
    values, origin = _read(profile), {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX):
            continue
        section, separator, key = variable.removeprefix(PREFIX).lower().partition("__")
        if not separator or section not in Settings.model_fields:
            known = ", ".join(Settings.model_fields).upper()
            raise InputError(f"variable {variable}: expected {PREFIX}SECTION__KEY, with a section of {known}")
        values.setdefault(section, {})[key] = _value(variable, text)
        origin[section, key] = f"variable {variable}"
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = first["loc"]
        where = origin.get(tuple(place[:2]), f"profile {profile}")
        if first["type"] == "extra_forbidden":
            section = type(getattr(Settings(), str(place[0]))) if len(place) > 1 else Settings
            known = section.model_fields
            name = ".".join(map(str, place))
            raise InputError(f"{where}: {name} is not a setting; expected one of {', '.join(known)}") from error
        raise InputError(f"{where}: {explain(error)}") from error


def _profile(name: str) -> Path:
    """The file of a profile."""
    shipped = PROFILES / f"{name}.yaml"
    found = shipped if shipped.is_file() else PROJECT / Path(name).expanduser()
    if not found.is_file():
        names = ", ".join(sorted(file.stem for file in PROFILES.glob("*.yaml")))
        raise InputError(f"profile {name!r}: neither a shipped one ({names}) nor a YAML file; set {PROFILE}")
    return found


def _read(profile: Path) -> dict[str, Any]:
    """Sections of keys; every section is a fresh dictionary."""
    try:
        values = yaml.safe_load(profile.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"profile {profile}: not readable as YAML: {_one_line(error)}") from error
    if not isinstance(values, dict) or not all(isinstance(section, dict) for section in values.values()):
        raise InputError(
            f"profile {profile}: expected sections ({', '.join(Settings.model_fields)}) of keys and values"
        )
    return {name: dict(section) for name, section in values.items()}


def _value(variable: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"variable {variable}: {text!r} is not YAML: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
