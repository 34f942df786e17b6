"""Settings of an installation: a profile (YAML), and environment variables that override it.

``LUFFY_PROFILE`` names the profile: a file of ``pipelines/profiles`` without its ending, or a path. A profile with
``base: NAME`` extends another one: mappings are merged by key, ``training.overrides`` follow those of the base, and
every other value replaces that of the base. A variable ``LUFFY__SECTION__KEY`` (say ``LUFFY__TRAINING__SEED=1``)
overrides one key; its value is YAML. The sections and keys are those of the classes below, and their values are the
defaults that the Launchpad shows.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from assets.shared.generation import GenerationOptions, RoundOptions
from assets.shared.interpreter_process import InterpreterSettings
from assets.shared.stage_options import (
    BenchmarkOptions,
    DifficultyOptions,
    EvaluationOptions,
    ModelOptions,
    PromotionOptions,
    ReportOptions,
    RetentionOptions,
    SplitOptions,
    TargetOptions,
    TrainingOptions,
)
from core import PROJECT
from core.errors import InputError, explain_validation, location
from core.files import read_yaml
from core.plugins.config_files import PROFILES, below_project, config_file
from evaluation.benchmarks.suite import Benchmark, Benchmarks, load_suite
from pipelines.definitions.catalog import CatalogSettings
from pipelines.definitions.notices import NotifySettings
from pipelines.user_paths import locate
from pipelines.variables import PROFILE, explain, origin, read_variables, setter
from targets.check.expectations import SUITE

BASE = "base"  # key of a profile: the profile that it extends
APPENDED = ".training.overrides"  # the later of two values for the same key wins


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def folder(root: str) -> str:
    """Return ``root``; ValueError if it is an address, or a file or a path below one."""
    if "://" in root:
        raise ValueError("expected a folder of this machine or a mounted one")
    path = PROJECT / Path(root).expanduser()
    if file := next((part for part in (path, *path.parents) if os.path.isfile(part)), None):
        raise ValueError(f"{file} is a file; expected a folder")
    return root


class StorageSettings(_Section):
    """The place of all outputs."""

    root: Annotated[str, AfterValidator(folder)] = Field(
        default="var/storage",
        description="Folder of all outputs. A relative path starts in the folder in which you call luffy.",
    )
    force: bool = Field(default=False, description="Make the selected results again, even if they are there.")


class SuiteSettings(_Section):
    """The benchmarks. They decide which assets exist, so they cannot be changed in the Launchpad."""

    name: str = Field(default="embedded", description="A suite of evaluation/benchmarks/suites, or a YAML file.")
    benchmarks: Benchmarks = Field(
        default=[], description="Entries of benchmarks, as in the file of a suite. They replace the suite."
    )
    only: list[str] = Field(default=[], description="Use only these benchmarks of the suite. Empty: all of them.")


class CheckSettings(_Section):
    """The quality checks. They decide which asset checks exist, so they cannot be changed in the Launchpad."""

    suite: str | None = Field(default=None, description="YAML file of checks that replaces targets/check/suite.yaml.")


class ScheduleSettings(_Section):
    """The times of the schedules."""

    retrain: str = Field(default="0 3 * * 1", description="Cron line of the weekly run.")
    retention: str = Field(default="30 22 * * 0", description="Cron line of the weekly retention.")
    timezone: str = Field(default="UTC", description="Time zone of the schedules.")


class Settings(_Section):
    """All settings of an installation, by section."""

    storage: StorageSettings = StorageSettings()
    interpreter: InterpreterSettings = InterpreterSettings()
    generate: GenerationOptions | None = None
    rounds: RoundOptions | None = None
    targets: TargetOptions = TargetOptions()
    difficulty: DifficultyOptions | None = None
    split: SplitOptions = SplitOptions()
    model: ModelOptions = ModelOptions()
    suite: SuiteSettings = SuiteSettings()
    benchmarks: BenchmarkOptions = BenchmarkOptions()
    checks: CheckSettings = CheckSettings()
    training: TrainingOptions = TrainingOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
    report: ReportOptions = ReportOptions()
    promotion: PromotionOptions = PromotionOptions()
    catalog: CatalogSettings = CatalogSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    notify: NotifySettings = NotifySettings()
    retention: RetentionOptions = RetentionOptions()

    def benchmark_suite(self) -> list[Benchmark]:
        """Return the benchmarks that are assets; InputError for a suite or a name that does not exist."""
        local = PROJECT / self.suite.name
        suite = self.suite.benchmarks or load_suite(local if local.is_file() else self.suite.name)
        if unknown := sorted(set(self.suite.only) - {benchmark.name for benchmark in suite}):
            names = ", ".join(benchmark.name for benchmark in suite)
            where = "suite.benchmarks" if self.suite.benchmarks else f"suite {self.suite.name}"
            raise InputError(f"suite.only: {', '.join(unknown)}: not in {where}, which has {names}")
        return [benchmark for benchmark in suite if not self.suite.only or benchmark.name in self.suite.only]

    def check_suite(self) -> Path:
        """Return the file of the quality checks on the targets."""
        return SUITE if self.checks.suite is None else PROJECT / Path(self.checks.suite).expanduser()


def read_settings(profile: str, changes: Mapping[str, Any]) -> Settings:
    """Read the settings of a profile with ``changes`` by section and key, whatever this process's environment says.

    Raises InputError that names the profile, the key and what was expected.
    """
    file = config_file(PROFILES, below_project(profile))
    try:
        settings = Settings(**_merged(read_profile(file), dict(changes)))
    except ValidationError as error:
        raise InputError(f"profile {file}: {explain_validation(error, Settings)}") from error
    return settings


def load_settings() -> Settings:
    """Load the settings of this process's environment.

    Raises InputError that names the profile or variable, the key and what was expected.
    """
    file = profile_file()
    # By hand, because pydantic-settings adds a tenth to the time in which the code location loads.
    profile, variables = read_profile(file), read_variables(_keys())
    changes: dict[str, Any] = {}
    for variable in variables:
        value = variable.value
        for key in reversed(variable.path):
            value = {key: value}
        changes = _merged(changes, value)
    try:
        settings = Settings(**_merged(profile, changes, appended=""))
    except ValidationError as error:
        where = setter(location(error), profile, variables) or f"profile {file}"
        raise InputError(explain(where, explain_validation(error, Settings))) from error
    return settings


def _keys() -> dict[str, list[str]]:
    """Return the keys of each section."""
    kinds = {name: get_args(field.annotation) or (field.annotation,) for name, field in Settings.model_fields.items()}
    return {
        name: [key for kind in either for key in getattr(kind, "model_fields", ())] for name, either in kinds.items()
    }


def profile_file() -> Path:
    """Return the file of the profile that ``LUFFY_PROFILE`` names; ``embedded`` by default."""
    try:
        return config_file(PROFILES, below_project(os.environ.get(PROFILE) or "embedded"))
    except InputError as error:
        raise InputError(f"{origin(PROFILE)}: {error}") from None


def read_profile(file: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read the sections of a profile, merged into those of the profile that it names as its ``base``.

    Args:
        file: The file of the profile.
        extended_by: The profiles that extend it, the first one first.

    Raises:
        InputError: A file is not a YAML mapping, a base does not exist, or a profile is a base of itself.
    """
    if file in extended_by:
        chain = " -> ".join(path.stem for path in (*extended_by, file))
        raise InputError(f"profile {file}: it is a base of itself ({chain}); remove a line `base:`")
    profile = read_yaml(file, "profile")
    if not file.is_relative_to(PROJECT / PROFILES):
        profile = {section: _located(section, values, file.parent) for section, values in profile.items()}
    if BASE not in profile:
        return profile
    name = profile.pop(BASE)
    if not isinstance(name, str):
        raise InputError(f"profile {file}: base: expected the name of a profile or a YAML file, got {name!r}")
    try:
        base = config_file(PROFILES, name, beside=file)
    except InputError as error:
        raise InputError(f"profile {file}: base: {error}") from None
    return _merged(read_profile(base, (*extended_by, file)), profile)


def _located(section: str, values: Any, folder: Path) -> Any:
    """Return the settings of a section of a user's profile, with the paths of files beside it made absolute."""
    if not isinstance(values, dict):
        return values
    return {key: locate(f"{section}.{key}", value, folder) for key, value in values.items()}


def _merged(base: Any, changes: Any, path: str = "", appended: str = APPENDED) -> Any:
    """Merge ``changes`` into ``base``: mappings by key, the list ``appended`` at the end, everything else as a whole.

    >>> _merged({"seeds": {"default": 1}, "recipes": ["sft"]}, {"seeds": {"luffy": 3}, "recipes": ["luffy"]})
    {'seeds': {'default': 1, 'luffy': 3}, 'recipes': ['luffy']}
    """
    if path == appended and isinstance(base, list) and isinstance(changes, list):
        return base + changes
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    return base | {key: _merged(base.get(key), value, f"{path}.{key}", appended) for key, value in changes.items()}
