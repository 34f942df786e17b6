"""The options and arguments that several commands of ``luffy`` share, and the completions of a shell."""

from typing import Annotated

import typer

from core.cli import whole_number
from core.plugins.config_files import HARDWARE, PROFILES, config_names


def profiles() -> list[str]:
    """List the profiles of the project and of installed packages."""
    return config_names(PROFILES)


def hardware_profiles() -> list[str]:
    """List the hardware profiles of trainings."""
    return config_names(HARDWARE)


Profile = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Profile of settings: a name or a YAML file. Default: $LUFFY_PROFILE, or luffy.yaml here.",
        autocompletion=profiles,
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting. Repeatable.")
]
Select = Annotated[
    str | None,
    typer.Option(
        metavar="ASSETS",
        help="Only these assets, such as key:targets/train, or +key:targets/train to include dependencies.",
    ),
]
AtOnce = Annotated[
    int, typer.Option(metavar="N", parser=whole_number(1), help="Maximum number of stages that run at the same time.")
]
Port = Annotated[int, typer.Option(metavar="PORT", parser=whole_number(1, 65535), help="Port of the UI.")]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on. Keep it local: the UI has no login.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Your reason, which is kept with the decision.")]
