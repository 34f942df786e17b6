"""Connections to Dagster's database that outlast its restart and open quickly, in the processes that execute a run.

Dagster retries a connection to Postgres for about 11 seconds. A training takes days, and a restart or an upgrade of
the database takes minutes. And for every event in SQLite, Dagster makes an engine anew.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 1800.0
PAUSE_SECONDS = 1.0

log = logging.getLogger(__name__)


def wait_for_database() -> None:
    """Let every connection of this process to Postgres wait for the server, for at most `PATIENCE_SECONDS`."""
    from sqlalchemy import Engine, event  # which takes a third of the time that loading the code location takes

    if not event.contains(Engine, "do_connect", _connect):
        event.listen(Engine, "do_connect", _connect)


def reuse_engines() -> None:
    """Let this process and its forks make one engine for each SQLite file, and read Dagster's migration scripts once.

    Dagster reads all scripts whenever a process opens a file, and an engine compiles the statements that it is new to.
    """
    from dagster._core.storage import sql
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from dagster._core.storage.runs.sqlite import sqlite_run_storage
    from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage

    scripts = vars(sql)["ScriptDirectory"]  # of Alembic
    if not isinstance(scripts.from_config, _Kept):
        scripts.from_config = _Kept(scripts.from_config, lambda config: config.get_main_option("script_location"))
        for storage in (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage):
            vars(storage)["create_engine"] = _Kept(vars(storage)["create_engine"], str)


class _Kept:
    """A function that makes one object for each key of its first argument."""

    def __init__(self, make: Callable[..., Any], key: Callable[[Any], str]) -> None:
        self._make, self._key = make, key
        self.made: dict[str, Any] = {}

    def __call__(self, what: Any, **more: Any) -> Any:
        if (key := self._key(what)) not in self.made:
            self.made[key] = self._make(what, **more)
        return self.made[key]


def _connect(dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
    """Connect as ``dialect`` does, and retry. For other databases return None, which leaves it to SQLAlchemy."""
    if dialect.name != "postgresql":
        return None
    deadline = time.monotonic() + PATIENCE_SECONDS
    waits = False
    while True:
        try:
            connection = dialect.connect(*arguments, **options)
        except dialect.loaded_dbapi.OperationalError as error:
            if time.monotonic() > deadline:
                raise
            if not waits:
                log.warning("Postgres does not answer, waiting for it: %s", error)
            waits = True
            time.sleep(PAUSE_SECONDS)
        else:
            if waits:
                log.warning("Postgres answers again")
            return connection
