"""The rows of seven prepared inputs, with one worker, with four, and on Ray, by the command of ``luffy targets``."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

INPUTS = Path(__file__).resolve().parents[1] / "golden/frozen/inputs"
TOKENIZER = Path.cwd() / "training/embedded_model/model"
TABLES = ("prepared", "profile", "rejected", "train", "heldout", "left_out")
ENGINES = {"one": ("local", "1"), "four": ("local", "4"), "ray": ("ray", "2")}  # the last is the number of workers


def prepare(settings: dict[str, Any], engine: tuple[str, str], out: Path) -> None:
    """Run the command where the inputs are, so that their names in the rows are the same everywhere."""
    config = out.with_suffix(".yaml")
    values = {"targets": settings | {"engine": engine[0], "workers": int(engine[1])}}
    values["split"] = {"heldout_share": 0.2, "max_rows": 900}
    config.write_text(json.dumps(values), encoding="utf-8")
    python = Path.cwd() / (".venv-train" if engine[0] == "ray" else ".venv") / "bin/python"
    command = [python, "-m", "targets", "--profile", config, "--tokenizer", TOKENIZER]
    command += ["--benchmarks", "suite.yaml", "--out", out]
    done = subprocess.run(command, cwd=INPUTS, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{settings}: {done.stderr}")


def table(out: Path, name: str) -> dict[str, Any]:
    """What is in a table, which may be several files: its rows, a digest of each column in their order, and reasons."""
    files = [file for file in sorted(out.glob("*.parquet")) if file.stem.split("-")[0] == name]
    columns = pa.concat_tables(map(pq.read_table, files)).to_pydict() if files else {}
    digests = {key: hashlib.sha256(json.dumps(column).encode()).hexdigest()[:16] for key, column in columns.items()}
    reasons = Counter(chain.from_iterable(columns.get("reasons", ())))
    return {"rows": len(columns.get("id", columns.get("prompt", ()))), "reasons": dict(reasons), "columns": digests}


def values() -> dict[str, Any]:
    frozen = {}
    for case, settings in json.loads((INPUTS / "preparation.json").read_text(encoding="utf-8")).items():
        for name, engine in ENGINES.items():
            with TemporaryDirectory(prefix="frozen-") as folder:
                prepare(settings, engine, Path(folder, "out"))
                frozen[f"{case}/{name}"] = {name: table(Path(folder, "out"), name) for name in TABLES}
    return frozen
