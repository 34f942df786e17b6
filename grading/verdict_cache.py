"""Verdicts on pairs of answers, for graders in several processes of one machine: what one compared, no other compares.

A SQLite file: any number of processes and threads may read and write it, and one that is killed leaves it whole.
"""

import json
import sqlite3
import threading
from pathlib import Path

WAIT_S = 60.0  # for another process's write, which takes less than a millisecond
LASTING = ("correct", "wrong", "gold_unparsed")  # a timeout or a dead process may not happen again


class VerdictStore:
    """The verdicts in ``file``, which is made if it is not there."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(file, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        self._database.execute("pragma synchronous = off")  # a crash of the machine ends its readers, too
        self._database.execute("create table if not exists verdicts (pair text primary key, found text)")

    def find(self, answer: str, gold: str) -> tuple[str, str] | None:
        """(verdict, reason) of the pair, if any process has found them."""
        with self._lock:
            row = self._database.execute(
                "select found from verdicts where pair = ?", (json.dumps([answer, gold]),)
            ).fetchone()
        if row is None:
            return None
        verdict, reason = json.loads(row[0])
        return verdict, reason

    def keep(self, answer: str, gold: str, verdict: str, reason: str) -> None:
        """Keep what was found, if it is sure to be found again."""
        if verdict not in LASTING:
            return
        # ASCII: a lone surrogate is no text to SQLite
        row = (json.dumps([answer, gold]), json.dumps([verdict, reason]))
        with self._lock:
            self._database.execute("insert or ignore into verdicts values (?, ?)", row)

    def close(self) -> None:
        self._database.close()
