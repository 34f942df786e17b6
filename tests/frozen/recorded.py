"""The recorded runs, read without code of the project."""

import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

RUNS = Path(__file__).resolve().parents[2] / "research/runs"
Tables = dict[str, pa.Table]  # GRADED tables by benchmark


def unpack(folder: Path, profile: str = "*") -> dict[str, Path]:
    """The folder with the files of each run ``profile/recipe-seed``: lineage.json and scores/BENCHMARK.parquet."""
    folders = {f"{file.parent.name}/{file.stem}": file for file in sorted(RUNS.glob(f"{profile}/*.zip"))}
    for run, file in folders.items():
        zipfile.ZipFile(file).extractall(folder / run)
    return {run: folder / run for run in folders}


def tables(run: Path) -> Tables:
    return {file.stem: pq.read_table(file) for file in sorted(run.glob("scores/*.parquet"))}
