"""DAGSTER_HOME, the folder of the Dagster instance."""

import os
from pathlib import Path

from core import PROJECT
from core.errors import InputError
from core.files import atomic_write

CONFIG = "dagster.yaml"


def prepare_home() -> Path:
    """Create DAGSTER_HOME (default ``var/dagster``) with the project's dagster.yaml; InputError if that fails.

    A dagster.yaml that the operator wrote is kept.
    """
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(PROJECT / "var" / "dagster"))).absolute()
    os.environ["DAGSTER_HOME"] = str(home)
    ours, target = (PROJECT / CONFIG).read_text(encoding="utf-8"), home / CONFIG
    marker = ours.splitlines()[0]
    try:
        home.mkdir(parents=True, exist_ok=True)
        present = target.read_text(encoding="utf-8") if target.exists() else marker
        if present != ours and present.startswith(marker):
            with atomic_write(target) as temporary:
                temporary.write_text(ours, encoding="utf-8")
    except OSError as error:
        raise InputError(f"DAGSTER_HOME {home}: {error.strerror}; make room or choose another folder") from error
    return home
