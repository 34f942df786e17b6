"""Reading what other stages wrote: suites, samples, graded results, manifests; with errors that say which file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def read_suite_file(path: Path) -> "pa.Table":
    """A BENCHMARK table with its metadata."""
    from core.schemas import BENCHMARK

    return _read(path, BENCHMARK, "python -m evaluation suite")


def read_folder(folder: Path, kind: str) -> "dict[str, pa.Table]":
    """{benchmark: table} of the parquet files of ``folder``; ``kind``: "samples" or "graded"."""
    from core.schemas import GRADED, SAMPLE

    schema, maker = {"samples": (SAMPLE, "generate"), "graded": (GRADED, "grade")}[kind]
    files = sorted(Path(folder).glob("*.parquet"))
    if not files:
        raise InputError(f"{folder}: no <benchmark>.parquet there; make them with python -m evaluation {maker}")
    tables = {file.stem: _read(file, schema, f"python -m evaluation {maker}") for file in files}
    if empty := [name for name, table in tables.items() if not table.num_rows]:
        raise InputError(f"{folder}: {', '.join(empty)}: no rows; make them again with python -m evaluation {maker}")
    return tables


def read_json(path: Path) -> Any:
    """The value of a JSON file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: not UTF-8 JSON ({error})") from error


def read_json_lines(path: Path) -> list[Any]:
    """The values of a file with one JSON value a line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines if line.strip()]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: not UTF-8 JSON lines ({error})") from error


def _read(path: Path, schema: "pa.Schema", maker: str) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        table.validate(full=True)  # among others, that its texts are UTF-8
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; make it with {maker}") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable parquet file ({error})") from error
    if missing := [name for name in schema.names if name not in table.schema.names]:
        raise InputError(f"{path}: no column {', '.join(missing)}; expected a file of {maker}")
    return table.select(schema.names).cast(schema.with_metadata(table.schema.metadata))
