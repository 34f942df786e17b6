"""The function that compares the rows of two queries, for `grading.isolation.function_worker`."""

import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

MOST_ROWS = 100_000
GOLD = "gold query: "  # before what is wrong with the gold answer
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_REFUSED = {"load_extension", "fts3_tokenizer"}

Rows = list[tuple[Any, ...]]


def score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any],
    *,
    database: str,
    ordered: bool,
) -> dict[str, Any]:
    """Return 1 if both queries return the same rows: in any order, each as often, or as ``ordered``."""
    try:
        file = database_of(database, extra_info)
    except ValueError as error:
        raise ValueError(f"{GOLD}{error}") from None
    with closing(open_read_only(file)) as connection:
        try:
            wanted = rows_of(connection, ground_truth)
        except (sqlite3.Error, ValueError) as error:
            raise ValueError(f"{GOLD}{error}") from None
        if not wanted:
            raise ValueError(f"{GOLD}it returns no row, as many wrong queries do")
        try:
            rows = rows_of(connection, solution_str)
        except (sqlite3.Error, ValueError) as error:
            return {"score": 0, "reason": str(error)}
    if rows and len(rows[0]) != len(wanted[0]):
        return {"score": 0, "reason": f"{len(rows[0])} columns, expected {len(wanted[0])}"}
    same = rows == wanted if ordered else Counter(rows) == Counter(wanted)
    other = "other rows" if len(rows) == len(wanted) else f"{len(rows)} rows, expected {len(wanted)}"
    return {"score": int(same), "reason": "the same rows" if same else other}


def database_of(path: str, fields: Mapping[str, Any]) -> Path:
    """Return the file of a row: ``{NAME}`` in the path stands for its field.

    Raises:
        ValueError: no such field, or its value is not the plain name of a file.
    """
    try:
        names = {name: str(value) for name, value in fields.items()}
        file = Path(path.format_map(names))
    except KeyError as error:
        raise ValueError(f"the row has no field {error}") from None
    if len(file.parts) != len(Path(path).parts) or ".." in file.parts:
        raise ValueError(f"{file} is not a file of the folder")
    if not file.is_file():
        raise ValueError(f"no database {file.name}")
    return file


def open_read_only(file: Path) -> sqlite3.Connection:
    """Open a SQLite file, or build the database of a ``.sql`` script in memory, so that only queries are allowed."""
    if file.suffix == ".sql":
        connection = sqlite3.connect(":memory:")
        connection.executescript(file.read_text(encoding="utf-8"))
    else:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    connection.set_authorizer(_authorize)
    return connection


def _authorize(action: int, _: str | None, name: str | None, *more: Any) -> int:
    is_query = action in _ALLOWED and not (action == sqlite3.SQLITE_FUNCTION and name in _REFUSED)
    return sqlite3.SQLITE_OK if is_query else sqlite3.SQLITE_DENY


def rows_of(connection: sqlite3.Connection, query: str) -> Rows:
    """Return the rows of a query, with one form for equal numbers."""
    rows = connection.execute(query).fetchmany(MOST_ROWS + 1)
    if len(rows) > MOST_ROWS:
        raise ValueError(f"more than {MOST_ROWS:,} rows")
    return [tuple(plain(value) for value in row) for row in rows]


def plain(value: Any) -> Any:
    """Return a value with floats rounded to 12 digits, and whole ones as integers.

    >>> plain(3.0), plain(0.1 + 0.2), plain("3")
    (3, 0.3, '3')
    """
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded
