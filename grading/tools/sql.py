"""Queries of a SQLite database that can only be read."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from core.errors import InputError
from core.model.calls import Call
from grading.isolation.sql_scorer import database_of, open_read_only, plain
from grading.tools.tool import Context, Exchange, Tool, ToolError, function_schema
from grading.verifiers.sql import files_of

MOST_ROWS = 100  # of an observation


class Sql(Tool):
    """Runs a query and returns the names of its columns and its first rows."""

    database: str  # a SQLite file or a .sql script; ``dbs/{NAME}.sqlite`` has the field NAME of the row in it

    def schema(self) -> dict[str, Any]:
        return function_schema(self, query="one SELECT of SQLite")

    def prepare(self) -> None:
        if not files_of(self.database):
            raise InputError(f"{self.database}: no such file; expected a SQLite file or a script that ends in .sql")

    def run(self, call: Call, history: Sequence[Exchange], context: Context) -> str:
        query = call.arguments.get("query")
        if not isinstance(query, str):
            raise ToolError("expected a text as query")
        try:
            with closing(open_read_only(database_of(self.database, context.row))) as connection:
                cursor = connection.execute(query)
                rows = cursor.fetchmany(MOST_ROWS)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise ToolError(str(error)) from None
        names = [column[0] for column in cursor.description or ()]
        return "\n".join(" | ".join(map(str, row)) for row in [names, *([plain(cell) for cell in row] for row in rows)])
