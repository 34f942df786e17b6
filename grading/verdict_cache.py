"""Verdicts on pairs of answers, shared by the graders of one machine so that no pair is compared twice.

It is a SQLite file: any number of processes and threads may read and write it, and a killed process leaves it intact.
"""

import json
import sqlite3
import threading
from pathlib import Path

WAIT_S = 60.0  # for another process's write, which takes less than a millisecond
LASTING = ("correct", "wrong", "gold_unparsed")  # a timeout or an error may not happen again


class VerdictStore:
    """The verdicts in ``file``, which is created if it does not exist."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(file, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        self._database.execute("pragma synchronous = off")  # a crash of the machine ends its readers, too
        self._database.execute("create table if not exists verdicts (pair text primary key, verdict text)")

    def find(self, answer: str, gold: str) -> tuple[str, str] | None:
        """(verdict, reason) of the pair, if any process has compared it."""
        with self._lock:
            row = self._database.execute(
                "select verdict from verdicts where pair = ?", (json.dumps([answer, gold]),)
            ).fetchone()
        if row is None:
            return None
        verdict, reason = json.loads(row[0])
        return verdict, reason

    def keep(self, answer: str, gold: str, verdict: str, reason: str) -> None:
        """Keep a verdict, if comparing again would be sure to give the same."""
        if verdict not in LASTING:
            return
        # as ASCII, because SQLite does not accept lone surrogates
        row = (json.dumps([answer, gold]), json.dumps([verdict, reason]))
        with self._lock:
            self._database.execute("insert or ignore into verdicts values (?, ?)", row)

    def close(self) -> None:
        self._database.close()
