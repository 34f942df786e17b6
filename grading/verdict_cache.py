"""A cache of verdicts that the graders of one machine share, so that no pair of answers is compared twice.

It is a SQLite file: any number of processes and threads may read and write it, and a killed process leaves it intact.
"""

import json
import logging
import sqlite3
import threading
from pathlib import Path

WAIT_S = 60.0  # time to wait for another process's write, which takes less than a millisecond
LASTING = ("correct", "wrong", "gold_unparsed")  # a timeout or an error may not happen again


class VerdictStore:
    """The verdicts in ``file``, which is created if it does not exist.

    A file that cannot be used (a full disk) costs time only: every pair is then compared, and a warning says so once.
    """

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._file = file
        self._database: sqlite3.Connection | None = None
        try:
            self._database = sqlite3.connect(file, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
            self._database.execute("pragma synchronous = off")  # a crash of the machine ends its readers, too
            self._database.execute("create table if not exists verdicts (pair text primary key, verdict text)")
        except sqlite3.Error as error:
            self._give_up(error)

    def find(self, answer: str, gold: str) -> tuple[str, str] | None:
        """Return (verdict, reason) of the pair, if any process has compared it."""
        rows = self._execute("select verdict from verdicts where pair = ?", json.dumps([answer, gold]))
        if not rows:
            return None
        verdict, reason = json.loads(rows[0][0])
        return verdict, reason

    def keep(self, answer: str, gold: str, verdict: str, reason: str) -> None:
        """Store a verdict, if a new comparison would certainly give the same."""
        if verdict in LASTING:
            # as ASCII, because SQLite does not accept lone surrogates
            row = (json.dumps([answer, gold]), json.dumps([verdict, reason]))
            self._execute("insert or ignore into verdicts values (?, ?)", *row)

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _execute(self, statement: str, *values: str) -> list[tuple[str]]:
        with self._lock:
            if self._database is None:
                return []
            try:
                return self._database.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                self._give_up(error)
                return []

    def _give_up(self, error: sqlite3.Error) -> None:
        """Continue without the file."""
        logging.getLogger(__name__).warning(
            "%s: verdicts on answers are not cached (%s), so that equal answers are compared again; make room or set "
            "TMPDIR to another folder",
            self._file,
            error,
        )
        if self._database is not None:
            self._database.close()
            self._database = None
