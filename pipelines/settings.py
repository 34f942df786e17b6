"""The settings of an installation: what its assets read, and what only its definitions do."""

from collections.abc import Sequence
from typing import Annotated

import dagster as dg
from pydantic import AfterValidator, Field

from assets.shared.settings import StageSettings
from core import settings
from core.settings import Section

DEFAULT = "embedded"  # the profile whose graph runs for real without data, network and GPU


def owner(text: str) -> str:
    """Return ``text``; ValueError unless Dagster takes it as an owner: an address or a team."""
    try:
        dg.AssetSpec("any", owners=[text])
    except dg.DagsterInvalidDefinitionError:
        raise ValueError(f"{text!r}: expected an e-mail address, or a team such as team:data") from None
    return text


class CatalogSettings(Section):
    """Settings of the catalogue in the UI: owners, freshness and links to the code."""

    owners: dict[str, list[Annotated[str, AfterValidator(owner)]]] = Field(
        default={}, description="Owners by group of assets: e-mail addresses, or teams such as team:data."
    )
    fresh_days: float | None = Field(
        default=8.0,
        ge=0.01,
        le=3650,
        description="Days after which an asset of the weekly run counts as late. After four times as many it counts as "
        "overdue. None: never.",
    )
    code_url: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="Address of the project's files in your repository, e.g. https://github.com/me/luffy/blob/main. "
        "None: links lead to the files of the machine that runs the code location.",
    )


class NotifySettings(Section):
    """Where notices go besides the daemon's log."""

    url_variables: list[str] = Field(
        default=[], description="Environment variables that hold the addresses of notices. The log has every notice."
    )


class ScheduleSettings(Section):
    """The times of the schedules."""

    retrain: str = Field(default="0 3 * * 1", description="Cron line of the weekly run.")
    retention: str = Field(default="30 22 * * 0", description="Cron line of the weekly retention.")
    timezone: str = Field(default="UTC", description="Time zone of the schedules.")


class Settings(StageSettings):
    """All settings of an installation, by section."""

    catalog: CatalogSettings = CatalogSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    notify: NotifySettings = NotifySettings()


def built_in() -> Settings:
    """Return the settings of the built-in task, whatever the variables say."""
    return settings.resolve(Settings, settings.profile_layers(DEFAULT, "profile"))


def load(profile: str | None = None, sets: Sequence[str] = ()) -> Settings:
    """Return the settings of `core.settings.load` for the graph, by default the built-in task's."""
    return settings.load(Settings, profile, sets, DEFAULT)
