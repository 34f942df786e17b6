"""Write the card of a training set on the hub: sources, filter counts and digests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.parquet import shards
from core.text.markdown import escape_markdown
from targets.read.sources import is_hub_id

DIGESTS = {
    "rows_digest": "rows of the training split",
    "heldout_digest": "rows of the held-out split",
    "prepared_digest": "targets before the split",
    "source_digest": "source files",
    "config_digest": "settings",
    "review_digest": "review",
    "benchmarks_digest": "benchmarks that were searched for",
    "tokenizer_digest": "tokenizer",
    "code_digest": "code of the preparation",
}


def dataset_card(
    repository: str, metadata: Mapping[str, str], rows: Mapping[str, int], train: Path, license: str | None
) -> str:
    """Markdown with the metadata that the hub reads.

    Args:
        metadata: what the training file records, without folders of this machine.
        rows: of each split.
        train: the file of the training split.
    """
    import pyarrow.parquet as pq
    from huggingface_hub import DatasetCardData

    config = json.loads(metadata["config"])
    sources = [entry if isinstance(entry, dict) else {"path": entry} for entry in config["source"]]
    parts = json.loads(metadata["sources"])
    datasets = [path for entry in sources if is_hub_id(path := entry["path"]) and path in parts]
    licenses = [license] if license else sorted({entry["license"] for entry in sources if entry.get("license")})
    parquets, schema = shards(train), pq.read_schema(shards(train)[0])
    ending = ".parquet" if len(parquets) == 1 else "-*.parquet"
    files = [{"split": name, "path": f"data/{name}{ending}"} for name in sorted(rows, reverse=True)]
    data = DatasetCardData(
        license=(licenses[0] if len(licenses) == 1 else licenses) or None,
        task_categories=["text-generation"],
        tags=["reasoning", "luffy"],
        source_datasets=datasets or None,
        configs=[{"config_name": "default", "data_files": files}],
    )
    counts, settings = json.loads(metadata["counts"]), {**config, "source": None}
    read = [("traces read", counts["read"], "")]
    read += [(step["title"], -step["removed"], step["left"]) for step in json.loads(metadata["filter_counts"])]
    lines = [
        f"---\n{data.to_yaml()}\n---\n\n# {escape_markdown(repository)}\n",
        "Verified reasoning traces in the schema of LUFFY's training set (arXiv 2504.14945), with a column `messages` "
        "for trainers that read conversations. The boxed answer of each agrees with its gold answer.\n",
        f"`luffy targets pull {escape_markdown(repository)} OUT` writes the training file with the same digest.\n",
        _table("Splits", ("split", "rows"), list(rows.items())),
        _table("Sources", ("source", "license", "teacher"), [_names(entry) for entry in sources]),
        _table("Rows of each source", ("part", "read", "kept"), [(n, c["read"], c["kept"]) for n, c in parts.items()]),
        _table("What the filters took", ("filter", "traces", "left"), [*read, ("kept", counts["kept"], "")]),
        _table("Lineage", ("sha256 of", "digest"), [(t, metadata[n]) for n, t in DIGESTS.items() if metadata.get(n)]),
        _table("Schema", ("column", "type"), [(field.name, str(field.type)) for field in schema]),
        _table("Settings", ("setting", "value"), [(n, v) for n, v in settings.items() if v is not None]),
    ]
    return "\n".join(lines)


def _names(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    return entry["path"], entry.get("license") or "not stated", entry.get("teacher") or "not stated"


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join([f"## {title}\n", *(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines), ""])


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else escape_markdown(str(value))
