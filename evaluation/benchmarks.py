"""The registry of benchmarks: suites as YAML, and the one place that turns their files into BENCHMARK rows.

A user adds a benchmark by an entry in a YAML file (see ``suites/paper.yaml``). `load_suite` reads only that YAML, so
the Dagster code location can define one asset a benchmark; the files are read by `read_benchmark`.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evaluation.errors import InputError
from evaluation.prompts import LETTERS, messages, with_options

if TYPE_CHECKING:
    import pyarrow as pa

GROUPS = {"evals": "In domain", "ood": "Out of domain"}
SUITES = Path(__file__).resolve().parent / "suites"
ENTRIES_KEY = b"benchmarks"  # parquet metadata of a suite table: its registry entries as JSON


class Columns(BaseModel):
    """Where a file keeps what a benchmark needs: dotted paths into a row; a list of messages means its user message."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    problem: str = "prompt"
    gold: str = "reward_model.ground_truth"
    options: str | None = None  # list of option texts, labelled A to J in the prompt
    id: str | None = None  # else a digest of the problem
    subject: str | None = None


class Source(BaseModel):
    """One file a benchmark can be read from."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    file: str
    where: dict[str, str] = Field(default_factory=dict)  # dotted path -> value that kept rows have
    columns: Columns = Columns()
    repeated: bool = False  # rows of the same problem are avg@k copies
    boilerplate: str | None = None


class Benchmark(BaseModel):
    """One entry of a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    group: Literal["evals", "ood"]
    title: str
    grader: Literal["math", "choice"] = "math"
    samples: int = Field(default=1, ge=1)  # k of avg@k
    size: int | None = Field(default=None, ge=1)  # problems in the whole benchmark; how many a generator makes
    sources: tuple[Source, ...] = ()
    generator: str | None = Field(default=None, pattern=r"^arithmetic:[a-z_]+$")

    @model_validator(mode="after")
    def _has_one_origin(self) -> "Benchmark":
        if bool(self.sources) == bool(self.generator):
            raise ValueError("give either `sources` or `generator`")
        if self.generator and self.size is None:
            raise ValueError("a generator needs a `size`")
        return self


class _Suite(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str = ""
    benchmarks: list[Benchmark] = Field(min_length=1)


def load_suite(name_or_path: str | Path) -> list[Benchmark]:
    """The benchmarks of a shipped suite ("embedded", "paper") or of a YAML file of the user's. Opens no data file."""
    shipped = SUITES / f"{name_or_path}.yaml"
    path = shipped if shipped.is_file() else Path(name_or_path)
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in SUITES.glob("*.yaml")))
        raise InputError(f"benchmark suite {str(name_or_path)!r}: neither a shipped suite ({names}) nor a YAML file")
    try:
        suite = _Suite.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"benchmark suite {path}: not readable as YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(f"benchmark suite {path}: {place}: {first['msg']}; see {SUITES / 'paper.yaml'}") from error
    names = [benchmark.name for benchmark in suite.benchmarks]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"benchmark suite {path}: {', '.join(twice)} named more than once; give each its own name")
    return suite.benchmarks


def read_suite(
    benchmarks: Iterable[Benchmark],
    roots: Sequence[Path],
    *,
    limit: int | None = None,
    seed: int = 0,
    system_prompt: str | None = None,
) -> "pa.Table":
    """All rows of ``benchmarks`` as one BENCHMARK table, with their registry entries in its metadata."""
    import pyarrow as pa

    chosen = list(benchmarks)
    tables = [read_benchmark(b, roots, limit=limit, seed=seed, system_prompt=system_prompt) for b in chosen]
    entries = json.dumps([benchmark.model_dump(mode="json") for benchmark in chosen])
    return pa.concat_tables(tables).replace_schema_metadata({ENTRIES_KEY: entries})


def suite_entries(suite: "pa.Table") -> list[Benchmark]:
    """The registry entries that `read_suite` recorded in a suite table; InputError if it was made by something else."""
    recorded = (suite.schema.metadata or {}).get(ENTRIES_KEY)
    if recorded is None:
        raise InputError("the suite's parquet file lacks its registry entries; make it with python -m evaluation suite")
    return [Benchmark.model_validate(entry) for entry in json.loads(recorded)]


def read_benchmark(
    benchmark: Benchmark,
    roots: Sequence[Path],
    *,
    limit: int | None = None,
    seed: int = 0,
    system_prompt: str | None = None,
) -> "pa.Table":
    """The problems of one benchmark as a BENCHMARK table.

    ``roots``: folders searched for its files, each with its direct subfolders. ``limit``: a sample of that many
    problems, the same for the same ``seed`` whatever the other benchmarks, in the benchmark's order. ``system_prompt``
    precedes every problem. Raises InputError for a missing file, column or gold, or a duplicate not marked repeated.
    """
    import pyarrow as pa

    from evaluation.records import BENCHMARK

    if limit is not None and limit < 1:
        raise InputError(f"benchmark {benchmark.name}: a limit of {limit} problems; expected 1 or more, or no limit")
    if benchmark.generator:
        rows = _generated(benchmark, limit, seed)
    else:
        rows = _sample(_from_files(benchmark, roots), benchmark.name, limit, seed)
    records = [
        {
            "benchmark": benchmark.name,
            "id": row["id"],
            "problem": row["problem"],
            "prompt": messages(row.get("asked", row["problem"]), system_prompt),
            "gold": row["gold"],
            "grader": benchmark.grader,
            "subject": row.get("subject"),
        }
        for row in rows
    ]
    return pa.Table.from_pylist(records, schema=BENCHMARK)


def _sample(rows: list[dict[str, Any]], name: str, limit: int | None, seed: int) -> list[dict[str, Any]]:
    if limit is None or limit >= len(rows):
        return rows
    ranked = sorted(rows, key=lambda row: hashlib.sha256(f"{seed}/{name}/{row['id']}".encode()).digest())
    kept = {row["id"] for row in ranked[:limit]}
    return [row for row in rows if row["id"] in kept]


def _generated(benchmark: Benchmark, limit: int | None, seed: int) -> list[dict[str, Any]]:
    from evaluation.arithmetic import problems

    assert benchmark.generator and benchmark.size
    split = benchmark.generator.partition(":")[2]
    made = problems(split, min(benchmark.size, limit or benchmark.size), seed)
    return [{"id": problem.id, "problem": problem.problem, "gold": problem.answer} for problem in made]


def _from_files(benchmark: Benchmark, roots: Sequence[Path]) -> list[dict[str, Any]]:
    from evaluation.benchmark_files import find, read_rows

    source, path = find(benchmark, roots)
    found: dict[str, dict[str, Any]] = {}
    columns = source.columns
    for number, record in read_rows(path):
        where = f"benchmark {benchmark.name}: {path}, row {number}"
        if any(str(_value(record, key, where)) != wanted for key, wanted in source.where.items()):
            continue
        row = _row(record, columns, where)
        if source.boilerplate:
            row["asked"] = row["problem"]
            row["problem"] = " ".join(row["problem"].split()).replace(source.boilerplate.strip(), "").strip()
        first = found.setdefault(row["id"], row)
        if first is row:
            continue
        if not source.repeated:
            raise InputError(
                f"{where}: the same problem as an earlier row (id {row['id']}); remove it, map an id column, or set "
                "`repeated: true` in the suite if the copies stand for avg@k"
            )
        if first["gold"] != row["gold"]:
            raise InputError(f"{where}: gold answer {row['gold']!r}, but an earlier copy has {first['gold']!r}")
    if not found:
        conditions = ", ".join(f"{key} = {wanted}" for key, wanted in source.where.items()) or "any row"
        raise InputError(f"benchmark {benchmark.name}: {path} has no row with {conditions}; correct `where`")
    return list(found.values())


def _row(record: dict[str, Any], columns: Columns, where: str) -> dict[str, Any]:
    problem = _text(_value(record, columns.problem, where))
    if columns.options:
        options = _value(record, columns.options, where)
        if not isinstance(options, list) or not 2 <= len(options) <= len(LETTERS):
            raise InputError(f"{where}: column {columns.options!r}: expected a list of 2 to {len(LETTERS)} options")
        problem = with_options(problem, options)
    gold = _answer(_value(record, columns.gold, where))
    for name, value, column in (("problem", problem, columns.problem), ("gold answer", gold, columns.gold)):
        if not value:
            raise InputError(f"{where}: the {name} (column {column}) is empty; give it or remove the row")
    digest = hashlib.sha256(problem.encode()).hexdigest()[:16]
    identity = str(_value(record, columns.id, where)) if columns.id else digest
    subject = _value(record, columns.subject, where) if columns.subject else None
    return {"id": identity, "problem": problem, "gold": gold, "subject": None if subject is None else str(subject)}


def _value(record: dict[str, Any], path: str, where: str) -> Any:
    value: Any = record
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            known = ", ".join(record)
            raise InputError(f"{where}: no column {path!r}; the row has {known}. Correct `columns` or `where`")
        value = value[part]
    return value


def _text(value: Any) -> str:
    """A problem: a string, or the user message of a conversation."""
    if isinstance(value, list):
        return next((m.get("content") or "" for m in reversed(value) if m.get("role") == "user"), "")
    return "" if value is None else str(value)


def _answer(value: Any) -> str:
    """A gold answer: a string or number; a list means all of its parts, or its only one."""
    if isinstance(value, list):
        return ", ".join(_answer(part) for part in value)
    return "" if value is None else str(value).strip()
