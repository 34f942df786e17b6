"""Queries of a model in a database of the user's: what is right, and what a hostile one costs."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import InputError
from grading.verdict import Grade
from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Verifier

GOLD = "SELECT name, price FROM items WHERE price > 2"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
SCRIPT = """
CREATE TABLE items (name TEXT, price REAL);
INSERT INTO items VALUES ('pen', 1.5), ('ink', 3), ('pad', 4.25), ('cap', 3);
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dbs")
    (folder / "shop.sql").write_text(SCRIPT)
    with sqlite3.connect(folder / "shop.sqlite") as connection:
        connection.executescript(SCRIPT)
    return folder


@pytest.fixture(scope="module")
def verifier(folder: Path) -> Iterator[Verifier]:
    spec = parse_spec({"type": "sql", "database": "{db}.sqlite", "limit_s": 2, "memory_mb": 256}, "test", folder=folder)
    assert spec.requires_fields == ("db",)
    with open_verifier(spec, workers=1) as opened:
        yield opened


def grade(verifier: Verifier, query: str, gold: str = GOLD, db: str = "shop") -> Grade:
    return verifier.verify(f"```sql\n{query}\n```", gold, fields={"db": db}, thinking=False)


@pytest.mark.parametrize(
    ("query", "verdict", "reason"),
    [
        ("select name, price + 0 from items where price >= 3 order by name", "correct", "the same rows"),
        ("SELECT name, price FROM items", "wrong", "4 rows, expected 3"),
        ("SELECT price, name FROM items WHERE price > 2", "wrong", "other rows"),
        ("SELECT name FROM items WHERE price > 2", "wrong", "1 columns, expected 2"),
        ("SELECT name, price FROM things", "wrong", "no such table: things"),
        ("DELETE FROM items", "wrong", "not authorized"),
        ("ATTACH 'other.sqlite' AS other", "wrong", "not authorized"),
        ("PRAGMA writable_schema = 1", "wrong", "not authorized"),
        ("SELECT load_extension('x')", "wrong", "not authorized to use function: load_extension"),
        ("SELECT 1; SELECT 2", "wrong", "You can only execute one statement at a time."),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i FROM n",
            "wrong",
            "more than 100,",
        ),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i, i FROM n WHERE i = 2", "error", ""),
        ("SELECT randomblob(900000000), 1", "error", "MemoryError"),
    ],
)
def test_a_query_is_right_if_it_returns_the_rows(verifier: Verifier, query: str, verdict: str, reason: str) -> None:
    given = grade(verifier, query)
    assert (str(given.verdict), reason in given.reason) == (verdict, True), given


def test_a_gold_query_that_decides_nothing_is_refused(verifier: Verifier, folder: Path) -> None:
    for gold, db in (("SELECT 1 WHERE 0", "shop"), ("SELECT x FROM y", "shop"), (GOLD, "none"), (GOLD, "../dbs/shop")):
        assert verifier.gold_problem(gold, {"db": db})
        assert str(grade(verifier, GOLD, gold, db).verdict) == "gold_unparsed"
    assert verifier.gold_problem(GOLD, {"db": "shop"}) is None
    with pytest.raises(InputError, match=r"database: .*none\.sqlite: no such file"):
        parse_spec({"type": "sql", "database": "none.sqlite"}, "test", folder=folder)


def test_order_counts_if_asked_and_a_script_is_a_database(folder: Path) -> None:
    options = {"type": "sql", "database": "shop.sql", "ordered": True, "answer": "response"}
    with open_verifier(parse_spec(options, "test", folder=folder), workers=1) as verifier:
        gold = "SELECT name FROM items ORDER BY price, name"
        for query, right in ((gold, True), ("SELECT name FROM items ORDER BY name", False)):
            assert verifier.verify(query, gold, thinking=False).solved is right
    before = parse_spec(options, "test", folder=folder).digest
    (folder / "shop.sql").write_text(SCRIPT.replace("4.25", "5"))
    assert parse_spec(options, "test", folder=folder).digest != before
