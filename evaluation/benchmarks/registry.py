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

from core.errors import InputError
from evaluation.generation.prompts import LETTERS, PLACE, messages, with_options

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
    labels: str | None = None  # the file's own labels of the options, where gold is one of them ("A", or "1")
    id: str | None = None  # else a digest of the problem
    subject: str | None = None


class Published(BaseModel):
    """Scores that others have published for this benchmark, in percent; never measured here."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    source: str
    scores: dict[str, float]  # model -> percent


class Source(BaseModel):
    """One file a benchmark can be read from: below a root folder, or in a dataset repository of the hub."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    file: str
    hub: str | None = Field(default=None, pattern=r"^[\w.-]+/[\w.-]+$")  # dataset repository that has `file`
    revision: str | None = None  # its commit, tag or branch
    where: dict[str, str] = Field(default_factory=dict)  # dotted path -> value that kept rows have
    columns: Columns = Columns()
    repeated: bool = False  # rows of the same problem are avg@k copies
    shuffle_options: bool = False  # put the options of each problem in an order drawn from the seed
    boilerplate: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> "Source":
        if bool(self.hub) != bool(self.revision):
            raise ValueError("`hub` and `revision` belong together: a file of the hub needs the commit that is meant")
        if self.shuffle_options and not self.columns.options:
            raise ValueError("`shuffle_options` needs `columns.options`: options inside a problem's text stay in place")
        return self


class Benchmark(BaseModel):
    """One entry of a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    group: Literal["evals", "ood"]
    title: str
    grader: Literal["math", "choice"] = "math"
    samples: int = Field(default=1, ge=1)  # k of avg@k, the metric
    prompt: str | None = None  # what a model is asked, with {problem} in it; none: the problem alone
    size: int | None = Field(default=None, ge=1)  # problems in the whole benchmark; how many a generator makes
    sources: tuple[Source, ...] = ()
    generator: str | None = Field(default=None, pattern=r"^arithmetic:[a-z_]+$")
    published: Published | None = None

    @model_validator(mode="after")
    def _has_one_origin(self) -> "Benchmark":
        if bool(self.sources) == bool(self.generator):
            raise ValueError("give either `sources` or `generator`")
        if self.generator and self.size is None:
            raise ValueError("a generator needs a `size`")
        if self.prompt is not None and PLACE not in self.prompt:
            raise ValueError(f"`prompt` lacks {PLACE}, the place of the problem")
        return self


class _Suite(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str = ""
    benchmarks: list[Benchmark] = Field(min_length=1)


def load_suite(name_or_path: str | Path) -> list[Benchmark]:
    """The benchmarks of a shipped suite (a file of ``suites``) or of a YAML file of the user's. Opens no data file."""
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


def select_benchmarks(name_or_path: str | Path, names: Sequence[str] | None = None) -> list[Benchmark]:
    """The benchmarks of a suite, or those of them that ``names`` lists; InputError for a name that it lacks."""
    benchmarks = load_suite(name_or_path)
    known = [benchmark.name for benchmark in benchmarks]
    if unknown := [name for name in names or [] if name not in known]:
        raise InputError(f"benchmark {', '.join(unknown)}: not in suite {name_or_path}, which has {', '.join(known)}")
    return [benchmark for benchmark in benchmarks if not names or benchmark.name in names]


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

    from core.schemas import BENCHMARK

    if limit is not None and limit < 1:
        raise InputError(f"benchmark {benchmark.name}: a limit of {limit} problems; expected 1 or more, or no limit")
    if benchmark.generator:
        rows = _generated(benchmark, limit, seed)
    else:
        rows = _sample(_from_files(benchmark, roots, seed), benchmark.name, limit, seed)
    records = [
        {
            "benchmark": benchmark.name,
            "id": row["id"],
            "problem": row["problem"],
            "prompt": messages(
                (benchmark.prompt or PLACE).replace(PLACE, row.get("asked", row["problem"])), system_prompt
            ),
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
    from core.arithmetic import problems

    assert benchmark.generator and benchmark.size
    split = benchmark.generator.partition(":")[2]
    made = problems(split, min(benchmark.size, limit or benchmark.size), seed)
    return [{"id": problem.id, "problem": problem.problem, "gold": problem.answer} for problem in made]


def _from_files(benchmark: Benchmark, roots: Sequence[Path], seed: int) -> list[dict[str, Any]]:
    from evaluation.benchmarks.files import find, read_rows

    source, path = find(benchmark, roots)
    found: dict[str, dict[str, Any]] = {}
    for number, record in read_rows(path):
        where = f"benchmark {benchmark.name}: {path}, row {number}"
        if any(str(_value(record, key, where)) != wanted for key, wanted in source.where.items()):
            continue
        row = _row(record, source, where, seed)
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


def _row(record: dict[str, Any], source: Source, where: str, seed: int) -> dict[str, Any]:
    columns = source.columns
    problem = _text(_value(record, columns.problem, where))
    gold = _answer(_value(record, columns.gold, where))
    if columns.options and gold:
        options, gold = _options(record, columns, gold, where)
        if source.shuffle_options:
            options, gold = _shuffled(options, gold, f"{seed}/{problem}")
        problem = with_options(problem, options)
    for name, value, column in (("problem", problem, columns.problem), ("gold answer", gold, columns.gold)):
        if not value:
            raise InputError(f"{where}: the {name} (column {column}) is empty; give it or remove the row")
    digest = hashlib.sha256(problem.encode()).hexdigest()[:16]
    identity = str(_value(record, columns.id, where)) if columns.id else digest
    subject = _value(record, columns.subject, where) if columns.subject else None
    return {"id": identity, "problem": problem, "gold": gold, "subject": None if subject is None else str(subject)}


def _options(record: dict[str, Any], columns: Columns, gold: str, where: str) -> tuple[list[str], str]:
    """The option texts, and the letter of the right one; gold is a letter, one of the file's own labels, or 1-10."""
    assert columns.options
    options = _value(record, columns.options, where)
    if not isinstance(options, list) or not 2 <= len(options) <= len(LETTERS):
        raise InputError(f"{where}: column {columns.options!r}: expected a list of 2 to {len(LETTERS)} options")
    labels = _value(record, columns.labels, where) if columns.labels else None
    if labels is None:
        labels = list(LETTERS[: len(options)]) if not gold.isdigit() else [str(n + 1) for n in range(len(options))]
    labels = [str(label).strip() for label in labels]
    if len(labels) != len(options) or gold not in labels:
        raise InputError(
            f"{where}: gold answer {gold!r} is the label of none of its {len(options)} options ({', '.join(labels)}); "
            "correct the row, or map `labels`"
        )
    return [str(option) for option in options], LETTERS[labels.index(gold)]


def _shuffled(options: list[str], gold: str, key: str) -> tuple[list[str], str]:
    """The options in an order that depends on ``key`` and their texts alone, and the right one's new letter."""
    order = sorted(range(len(options)), key=lambda place: hashlib.sha256(f"{key}/{options[place]}".encode()).digest())
    return [options[place] for place in order], LETTERS[order.index(LETTERS.index(gold))]


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
