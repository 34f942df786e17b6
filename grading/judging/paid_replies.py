"""The replies of judges and what they cost, in a SQLite file that all processes of a user on this machine share.

`grading.verifiers.judge` reads the score in a reply.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from core.machine.processes import Process, start_ticks

WAIT_S = 60.0  # time to wait for another process's write
POLL_S = 0.1  # while another process asks the same


class OverBudget(Exception):
    """A request that does not fit into what is left of the budget."""


class PaidForNothing(Exception):
    """A request that may have been answered and paid, but has lost its reply."""


class Ledger:
    """No request is sent again once its reply is here, and no two processes ask the same at once."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        with self._transaction() as database:
            database.execute(
                "create table if not exists calls (id integer primary key, key text, judge text, owner text, "
                "tokens integer, reply text)"
            )
            database.execute("create index if not exists by_key on calls (key)")

    def reply(self, key: str, judge: str, most: int, budget: int | None, ask: Callable[[], tuple[str, int]]) -> str:
        """Return the reply to the request ``key``: the one that is here, or what ``ask`` returns, with its tokens.

        Args:
            judge: the owner of the budget.
            most: tokens that the request may take.

        Raises:
            OverBudget: ``budget`` does not cover ``most`` more tokens.
            Exception: whatever ``ask`` raises; only after `PaidForNothing` the tokens count as spent.
        """
        while (claimed := self._claim(key, judge, most, budget)) is None:
            time.sleep(POLL_S)
        if isinstance(claimed, str):
            return claimed
        try:
            reply, tokens = ask()
        except PaidForNothing:
            self._execute("update calls set owner = null where id = ?", claimed)
            raise
        except BaseException:
            self._execute("delete from calls where id = ?", claimed)
            raise
        self._execute("update calls set owner = null, reply = ?, tokens = ? where id = ?", reply, tokens, claimed)
        return reply

    def _claim(self, key: str, judge: str, most: int, budget: int | None) -> str | int | None:
        """Return the reply, or the id of the call that is ours to make; None while another process makes it."""
        with self._transaction() as database:
            rows = database.execute("select id, owner, reply from calls where key = ?", (key,)).fetchall()
            for number, owner, reply in rows:
                if reply is not None:
                    return reply
                if owner is not None and _is_alive(owner):
                    return None
                if owner is not None:  # it died while it asked, and may have paid
                    database.execute("update calls set owner = null where id = ?", (number,))
            tokens = "select coalesce(sum(tokens), 0) from calls where judge = ?"  # spent, or reserved for requests
            (spent,) = database.execute(tokens, (judge,)).fetchone()
            if budget is not None and spent + most > budget:
                raise OverBudget(f"{spent:,} of {budget:,} tokens are spent, and this request may take {most:,}")
            owner = f"{os.getpid()}:{start_ticks(os.getpid())}"
            cursor = database.execute(
                "insert into calls (key, judge, owner, tokens) values (?, ?, ?, ?)", (key, judge, owner, most)
            )
            return cursor.lastrowid

    def _execute(self, statement: str, *values: str | int) -> None:
        with self._transaction() as database:
            database.execute(statement, values)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self._file, timeout=WAIT_S, isolation_level=None)
        try:
            database.execute("begin immediate")
            yield database
            database.execute("commit")
        finally:
            database.close()  # rolls back what was not committed


def _is_alive(owner: str) -> bool:
    pid, since = map(int, owner.split(":"))
    return Process(pid, since).is_alive()
