"""Connections to Dagster's database that outlast its restart, in the processes that execute a run.

Dagster retries a connection to Postgres for about 11 seconds. A training takes days, and a restart or an upgrade of
the database takes minutes.
"""

import logging
import time
from typing import Any

PATIENCE_SECONDS = 1800.0
PAUSE_SECONDS = 1.0

log = logging.getLogger(__name__)


def wait_for_database() -> None:
    """Let every connection of this process to Postgres wait for the server, for at most `PATIENCE_SECONDS`."""
    from sqlalchemy import Engine, event  # which takes a third of the time that loading the code location takes

    if not event.contains(Engine, "do_connect", _connect):
        event.listen(Engine, "do_connect", _connect)


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
