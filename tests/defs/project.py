"""What the tests of the definitions share: a project to run, and the message of a run that failed."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.shared.references import MAKER
from assets.shared.storage import FILES
from pipelines.definitions.factory import build_defs
from pipelines.definitions.sensors import reason
from pipelines.settings import Settings, load


def settings_of(**variables: str) -> Settings:
    """The settings of an environment that has these ``LUFFY…`` variables and no others."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("LUFFY")]:
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        return load()


@dataclass
class Project:
    """Definitions of one profile with its storage, and an instance to run them on."""

    defs: Any
    storage: Path
    instance: Any

    def run(self, *keys: str, **luffy: Any) -> Any:
        """Materialize ``keys`` with their checks in one run of the job `everything`; the result, also if it failed.

        ``luffy``: what the Launchpad gives the resource of this name.
        """
        job = self.defs.resolve_job_def("everything")
        selection = [dg.AssetKey.from_user_string(key) for key in keys]
        return job.execute_in_process(
            instance=self.instance,
            asset_selection=selection,
            run_config={"resources": {"luffy": {"config": luffy}}},
            raise_on_error=False,
        )

    def run_job(self, job: str, **luffy: Any) -> Any:
        """Execute ``job`` with the configuration of the resource ``luffy``; the result, also if it failed."""
        return self.defs.resolve_job_def(job).execute_in_process(
            instance=self.instance, run_config={"resources": {"luffy": {"config": luffy}}}, raise_on_error=False
        )

    def tick(self, sensor: str, cursor: str | None = None) -> Any:
        """Evaluate ``sensor`` once."""
        context = dg.build_sensor_context(instance=self.instance, cursor=cursor, definitions=self.defs)
        return next(found for found in self.defs.sensors if found.name == sensor).evaluate_tick(context)

    def files(self) -> dict[str, str]:
        """Digest of each output; locks, settings of runs, and what says which code made a folder, are none."""
        files = (path for path in self.storage.rglob("*") if path.is_file() and path.name != "settings.yaml")
        found = sorted(path for path in files if path.suffix != ".lock" and path.name != MAKER)
        return {str(p.relative_to(self.storage)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}

    def page(self, link: str) -> Path:
        """The file of the storage that the UI serves at ``link``."""
        return self.storage / link.removeprefix(FILES + "/")

    def metadata(self, key: str) -> dict[str, Any]:
        """Metadata of the last materialization of ``key``."""
        event = self.instance.get_latest_materialization_event(dg.AssetKey.from_user_string(key))
        return {name: entry.value for name, entry in event.asset_materialization.metadata.items()}

    def data_version(self, key: str) -> str:
        """Data version of the last materialization of ``key``."""
        event = self.instance.get_latest_materialization_event(dg.AssetKey.from_user_string(key))
        return event.asset_materialization.tags["dagster/data_version"]


def build_project(folder: Path, instance: Any, profile: str = "embedded", **settings: str) -> Project:
    """A project with its storage in ``folder``, from settings given as ``section__key=value``."""
    environment = {"LUFFY_PROFILE": profile, "LUFFY__STORAGE__ROOT": str(folder)}
    environment |= {f"LUFFY__{name.upper()}": value for name, value in settings.items()}
    return Project(build_defs(settings_of(**environment)), folder, instance)


def message(result: Any) -> str:
    """The description of the failure that ended a run."""
    for event in result.all_events:
        if event.event_type_value == "PIPELINE_FAILURE" and (error := event.event_specific_data.error):
            return reason(error)  # before any step started
    failures = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    assert len(failures) == 1, [event.message for event in failures]
    return failures[0].step_failure_data.user_failure_data.description
