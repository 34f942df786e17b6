"""What the UI shows about targets: counts by filter, lengths, examples, and a comparison with the previous version."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.shared.metadata import PREVIEW_ROWS, columns, counts, percents, pictures, preview, rounded, rows_table
from core.parquet import ROWS_PER_READ, count_rows, read_batches, read_shards, shards
from grading.verifiers.spec import spec_text

if TYPE_CHECKING:
    from targets.check.version_diff import Example
    from targets.prepared_files import Prepared

PREVIEW_COLUMNS = ["extra_info.id", "prompt", "target", "reward_model.ground_truth"]
EXAMPLES = 2  # number for each reason


def stages(prepared: "Prepared") -> list[tuple[str, int]]:
    """Return the number of traces read, and the number left after each filter."""
    return [("read", prepared.counts["read"]), *((step["title"], step["left"]) for step in prepared.filter_counts)]


def prepared_metadata(prepared: "Prepared") -> dict[str, Any]:
    """Return the metadata of targets/prepared."""
    import pyarrow.parquet as pq

    from evaluation.report.charts import funnel, histogram
    from targets.prepared_files import hint_texts, log_probs_text

    lengths = read_shards(prepared.profile, columns=["prompt_tokens", "target_tokens"])
    prompts, tokens = (column.to_numpy() for column in lengths.columns)
    limits = prepared.config.max_prompt_tokens, prepared.config.max_target_tokens
    shapes = [
        histogram(f"{name} tokens, up to the limit", values.tolist(), limit=limit)
        for name, values, limit in (("target", tokens, limits[1]), ("prompt", prompts, limits[0]))
    ]
    return {
        "dagster/row_count": prepared.counts["kept"],
        "dagster/column_schema": columns(pq.read_schema(shards(prepared.prepared)[0])),
        "read": prepared.counts["read"],
        **percents({"used": prepared.counts["kept"] / prepared.counts["read"]}),
        "what the filters left": pictures(funnel("Rows after each stage", stages(prepared))),
        "lengths": pictures(*shapes),
        "by source": by_source(prepared),
        "files and datasets": _parts(prepared),
        "licenses, teachers and other metadata": _breakdown(prepared),
        **({"hints": "\n".join(hints)} if (hints := hint_texts(prepared)) else {}),
        "response formats": counts(prepared.response_formats, ("markers of the traces", "traces")),
        "our verdict compared with the source's": counts(prepared.disagreements, ("verdicts", "traces")),
        **({"target_log_probs": log_probs_text(prepared)} if prepared.log_probs else {}),
        "target tokens, mean": rounded(tokens.mean()),
        "target tokens, longest": int(tokens.max()),
        "prompt tokens, longest": int(prompts.max()),
        "preview": _first_rows(prepared.prepared),
        "settings": dg.MetadataValue.json(prepared.config.model_dump(mode="json")),
        "file": dg.MetadataValue.path(str(prepared.prepared)),
    }


def rejected_metadata(prepared: "Prepared") -> dict[str, Any]:
    """Return the metadata of targets/rejected."""
    import pyarrow.parquet as pq

    from evaluation.report.charts import funnel

    reasons = {name: count for name, count in prepared.counts.items() if name not in ("read", "kept")}
    return {
        "dagster/row_count": count_rows(prepared.rejected),
        "dagster/column_schema": columns(pq.read_schema(shards(prepared.rejected)[0])),
        "what the filters left": pictures(funnel("Rows after each stage", stages(prepared))),
        "reasons": counts(reasons, ("first reason", "traces")),
        "by source": by_source(prepared),
        "all reasons, several per trace": counts(prepared.all_reasons, ("reason", "traces")),
        "examples of each reason": _examples(prepared.rejected, [step["filter"] for step in prepared.filter_counts]),
        "file": dg.MetadataValue.path(str(prepared.rejected)),
    }


def train_metadata(path: Path, previous: str | None, profile: str) -> dict[str, Any]:
    """Return the metadata of targets/train, the table ``path``; ``previous`` is the profile of the previous version."""
    import pyarrow.parquet as pq

    files = shards(path)
    return {
        "dagster/row_count": count_rows(path),
        "dagster/column_schema": columns(pq.read_schema(files[0])),
        **_comparison(previous, profile),
        "preview": _first_rows(path),
        **({"files": len(files)} if len(files) > 1 else {}),
        "file": dg.MetadataValue.path(str(path)),
    }


def by_source(prepared: "Prepared") -> dg.MarkdownMetadataValue:
    """Describe what the filters took from each source, and what they left."""
    titles = [step["filter"] for step in prepared.filter_counts]
    rows = []
    for source in prepared.config.sources:
        n = {"read": 0, "kept": 0, **prepared.by_source.get(str(source.name), {})}
        share = f"{n['kept'] / n['read']:.1%}" if n["read"] else ""
        numbers = [f"{n['read']:,}", *(f"{n.get(name, 0):,}" for name in titles), f"{n['kept']:,}", share]
        rows.append([source.name, source.ability, spec_text(source.spec), *numbers])
    return rows_table(["source", "domain", "verifier", "read", *titles, "kept", "share kept"], rows, left=range(3))


def _parts(prepared: "Prepared") -> dg.MarkdownMetadataValue:
    rows = ((name, *_numbers(n)) for name, n in prepared.sources.items())
    return rows_table(("file or dataset", "read", "kept", "share kept"), rows)


def _breakdown(prepared: "Prepared") -> dg.MarkdownMetadataValue:
    if not prepared.breakdown:
        return dg.MetadataValue.md("the sources declare none")
    rows = ((name, value, *_numbers(n)) for name, values in prepared.breakdown.items() for value, n in values.items())
    return rows_table(("metadata", "value", "read", "kept", "share kept"), rows, left=(0, 1))


def _numbers(n: Mapping[str, int]) -> tuple[str, str, str]:
    return f"{n['read']:,}", f"{n['kept']:,}", f"{n['kept'] / n['read']:.1%}"


def _examples(path: Path, reasons: Sequence[str]) -> dg.MarkdownMetadataValue:
    """Return the first rejected traces of each reason, in the order of the filters."""
    import pyarrow as pa

    columns = ("reason", "id", "detail", "problem", "gold")
    found: dict[str, list[dict[str, Any]]] = {reason: [] for reason in reasons}
    for batch in read_batches(path, ROWS_PER_READ, columns):
        names = batch["reason"].to_pylist()
        for reason in dict.fromkeys(names):
            if (examples := found.get(reason)) is not None and len(examples) < EXAMPLES:
                rows = [row for row, name in enumerate(names) if name == reason][: EXAMPLES - len(examples)]
                examples += batch.take(pa.array(rows)).to_pylist()
    rows = (row.values() for examples in found.values() for row in examples)
    return rows_table(columns, rows, left=range(len(columns)))


def _comparison(previous: str | None, profile: str) -> dict[str, Any]:
    """Format the table of two versions, and the tables of the problems that were removed and added."""
    from targets.check.version_diff import compare_folders

    title = "compared with the version before"
    if previous is None:
        return {title: dg.MetadataValue.md("there is no earlier version")}
    difference = compare_folders(Path(previous).parent, Path(profile).parent)
    rows = ((what, f"{before:,}", f"{now:,}") for what, before, now in difference.lines)
    return {
        title: rows_table(("", "before", "now"), rows),
        "problems that went": _changed(difference.went, "now"),
        "problems that came": _changed(difference.came, "before"),
    }


def _changed(examples: Sequence["Example"], other: str) -> dg.MarkdownMetadataValue:
    """Format some targets that one version lacks; ``other`` says when that version was made."""
    rows = ((row.id, row.problem, row.gold, f"{row.target_tokens:,}", row.elsewhere) for row in examples)
    return rows_table(("id", "problem", "gold", "target tokens", other), rows, left=(0, 1, 2, 4))


def _first_rows(path: Path) -> dg.MarkdownMetadataValue:
    import pyarrow as pa

    batch = next(read_batches(path, PREVIEW_ROWS, PREVIEW_COLUMNS))
    return preview(pa.Table.from_batches([batch]), batch.schema.names)
