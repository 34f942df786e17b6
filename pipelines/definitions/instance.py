"""DAGSTER_HOME, the folder of the Dagster instance."""

import os
from pathlib import Path

from assets.shared.storage import Storage
from core import PROJECT
from core.errors import InputError
from core.files import atomic_write

CONFIG = "dagster.yaml"


def prepare_home(storage: str) -> Path:
    """Create DAGSTER_HOME with the project's dagster.yaml; InputError if that fails.

    Without the variable it is a folder of the ``storage``, so that each has a history of its own. A dagster.yaml that
    the operator wrote stays.
    """
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(Storage(root=storage).path / "dagster"))).absolute()
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
