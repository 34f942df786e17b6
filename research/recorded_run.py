"""Record a scored run as one small file without weights, for comparisons.

These files let you compare runs from several machines and rebuild the page later.
"""

import csv
import json
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.files import atomic_folder, atomic_write, digest_file, read_json_lines, read_object
from core.metric_table import read_step_metrics
from core.model.lineage_file import MANIFEST, Manifest, parse_manifest
from core.zip_archive import unpack
from pipelines.api import read_folder

if TYPE_CHECKING:
    import pyarrow as pa

METRICS, PROBLEMS, SCORES = "metrics.jsonl", "problems.json", "scores"
INDEX = "index.csv"
ADVICE = "copy the file again from where it was recorded, or record the run again"
SIGNIFICANT = 7  # digits of a metric, as many as a float32 has


@dataclass(frozen=True)
class RecordedRun:
    """The records of a run: its manifest, the metrics of its steps, and its GRADED tables by benchmark."""

    manifest: Manifest
    metrics: tuple[Mapping[str, Any], ...]  # {"step": int, "data": {metric: value}}
    problems: Mapping[str, str]  # digest of the problems of each benchmark
    tables: "Mapping[str, pa.Table]"

    def __str__(self) -> str:
        """Say when the run was made, and by which commit."""
        return f"made on {self.manifest.started[:10]} by {(self.manifest.code.commit or 'no commit')[:8]}"


def record_run(
    path: Path, *, policy: Path, metrics: Path, problems: Mapping[str, str], tables: "Mapping[str, pa.Table]"
) -> None:
    """Write the run of a policy folder with its GRADED ``tables``, by benchmark. InputError if it cannot be written.

    The same run gives the same bytes, whenever it is recorded.
    """
    texts = {
        MANIFEST: json.dumps(_without_folders(read_object(policy / MANIFEST)), indent=2, sort_keys=True) + "\n",
        METRICS: "".join(f"{json.dumps(_shorten(record))}\n" for record in read_json_lines(metrics)),
        PROBLEMS: json.dumps(dict(problems), indent=2, sort_keys=True),
    }
    contents = {name: text.encode() for name, text in texts.items()}
    contents |= {f"{SCORES}/{name}.parquet": _portable(table) for name, table in sorted(tables.items())}
    try:
        with atomic_write(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for name, content in contents.items():
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    except OSError as error:
        raise InputError(f"{path}: the run cannot be recorded: {error.strerror}; choose another folder") from error


def record_tables(folder: Path, tables: "Mapping[str, pa.Table]") -> None:
    """Write the GRADED ``tables`` of a model that was not trained, by benchmark, into a new folder."""
    with atomic_folder(folder) as temporary:
        for name, table in tables.items():
            (temporary / f"{name}.parquet").write_bytes(_portable(table))


def read_run(path: Path, advice: str = ADVICE) -> RecordedRun:
    """Return the run that `record_run` wrote; InputError, which ends in ``advice``, if it is missing or damaged."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(path, folder, "a recorded run", advice, (MANIFEST, METRICS, PROBLEMS))
        try:
            problems, tables = read_object(folder / PROBLEMS), read_folder(folder / SCORES, "graded")
            manifest, metrics = parse_manifest(folder), tuple(read_step_metrics(folder / METRICS))
        except InputError as error:
            raise InputError(f"{path}: {str(error).replace(f'{folder}/', '')}; {advice}") from error
    if problems.keys() != tables.keys():
        raise InputError(f"{path}: problems of {', '.join(problems)}, scores of {', '.join(tables)}; {advice}")
    return RecordedRun(manifest, metrics, problems, tables)


def index_runs(root: Path) -> list[dict[str, str]]:
    """List the runs ``PROFILE/NAME-SEED.zip`` below ``root``: sha256, profile, name, recipe, seed, identity."""
    rows = []
    for file in sorted(root.glob("*/*.zip")):
        manifest = read_run(file).manifest
        rows.append(
            {
                "digest": digest_file(file),
                "profile": file.parent.name,
                "name": file.stem.rpartition("-")[0],
                "recipe": manifest.request.recipe,
                "seed": str(manifest.request.seed),
                "identity": manifest.identity,
            }
        )
    return rows


def write_index(root: Path) -> None:
    """List the recorded runs below ``root`` in its ``index.csv``."""
    rows = index_runs(root)
    with atomic_write(root / INDEX) as temporary, temporary.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _without_folders(value: Any) -> Any:
    """Reduce absolute paths in a JSON value to file names, because folders differ between machines.

    >>> _without_folders({"base": "/home/me/model.gguf", "config": '{"source": ["/data/traces.jsonl"]}'})
    {'base': 'model.gguf', 'config': '{"source": ["traces.jsonl"]}'}
    """
    match value:
        case dict():
            return {name: _without_folders(part) for name, part in value.items()}
        case list():
            return [_without_folders(part) for part in value]
        case str() if value.startswith(("{", "[")):  # a configuration as its text
            try:
                return json.dumps(_without_folders(json.loads(value)))
            except ValueError:
                return value
        case str() if value.startswith("/"):
            return Path(value).name
    return value


def _portable(table: "pa.Table") -> bytes:
    """Write a GRADED table as parquet, without the model's folder, which differs between machines."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"model"}
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def _shorten(record: Mapping[str, Any]) -> dict[str, Any]:
    """Round the numbers in the record of a step to `SIGNIFICANT` digits.

    >>> _shorten({"step": 3, "data": {"actor/grad_norm": 0.123456789012, "tokens": 123456789}})
    {'step': 3, 'data': {'actor/grad_norm': 0.1234568, 'tokens': 123456789}}
    """
    numbers = {
        name: float(f"{value:.{SIGNIFICANT}g}") if isinstance(value, float) else value
        for name, value in record["data"].items()
    }
    return {"step": record["step"], "data": numbers}
