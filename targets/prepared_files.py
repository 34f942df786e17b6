"""Read the records of a preparation: the files that it wrote, and its counts."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core import kinds
from core.errors import InputError
from core.parquet import read_shards
from targets.files import PREPARED, PROFILE_FILE, REJECTED_FILE, REMEDY, read_metadata
from targets.settings import RECORDED, TargetSettings
from targets.source_settings import EMBEDDED

COUNTED = (
    "counts",
    "all_reasons",
    "filter_counts",
    "sources",
    "by_source",
    "breakdown",
    "response_formats",
    "disagreements",
    "hints",
    "log_probs",
    "mappings",
    "decided_by",
)
EXPLAINED = 3  # reasons whose meaning is in the message when nothing is left


@dataclass(frozen=True)
class Prepared:
    """The files and the counts of a preparation."""

    prepared: Path
    profile: Path
    rejected: Path
    digest: str  # sha256 over the rows of `prepared`: its data version
    counts: dict[str, int]  # "read", "kept", and per filter the traces that it rejected first
    all_reasons: dict[str, int]  # per filter every trace that it rejected, first or not
    filter_counts: list[dict[str, Any]]  # {"filter", "title", "removed", "left"} in the order of the filters
    sources: dict[str, dict[str, int]]  # {file or dataset: {"read", "kept"}}
    by_source: dict[str, dict[str, int]]  # by source block: "read", "kept", and per filter what it rejected first
    breakdown: dict[str, dict[str, dict[str, int]]]  # {metadata: {value: {"read", "kept"}}}
    response_formats: dict[str, int]
    disagreements: dict[str, int]  # our verdicts against the source's own flags
    hints: dict[str, str]  # by source block: what would keep more of its traces, such as another verifier
    mappings: list[dict[str, Any]]  # of each file or dataset: its columns, as a mapping, and its "source" by number
    log_probs: dict[str, int]  # kept targets "with" and "without" them; empty if no source has any
    decided_by: list[str]  # digests of the code that decided about the traces
    code_digest: str  # of the code that wrote the files
    config: TargetSettings
    reused: bool = field(default=False, compare=False)  # nothing had changed since an earlier run, so nothing was done


def log_probs_text(prepared: Prepared) -> str:
    """How many targets have the teacher's log-probabilities, and why the others do not."""
    there, absent = (prepared.log_probs.get(name, 0) for name in ("with", "without"))
    others = "; the others come without, or were drawn as other tokens than the policy's tokenizer makes of them"
    return f"{there:,} of {there + absent:,} targets{others if absent else ''}"


def kept_text(prepared: Prepared) -> str:
    """How many traces became targets, in all and of each source block where there are several, and what is not usual:
    questions that a benchmark holds out, and traces on which the verifier failed."""
    text = f"{prepared.counts['kept']:,} of {prepared.counts['read']:,} traces are used"
    if held := prepared.counts.get("held_for_benchmark"):
        text += f", {held:,} held for the benchmark"
    if lost := prepared.counts.get("verify_error"):
        text += f", {lost:,} lost because the verifier failed.{read_example(prepared.rejected, 'verify_error')}"
    if len(prepared.by_source) < 2:
        return text
    parts = [f"{name} {n.get('kept', 0):,} of {n['read']:,}" for name, n in sorted(prepared.by_source.items())]
    return f"{text} ({', '.join(parts)})"


def column_texts(prepared: Prepared) -> list[str]:
    """A sentence on each set of columns that ``auto`` chose."""
    texts: dict[str, None] = {}
    for mapping in prepared.mappings:
        source = prepared.config.sources[mapping["source"]]
        if source.mapping in (None, "auto") and source.path != EMBEDDED and not source.task:
            columns = {part: mapping[part] for part in ("problem", "answer", "response", "reasoning", "system")}
            if columns["system"] == columns["problem"]:  # of chats alone
                del columns["system"]
            named = [f"{part} from {name}" for part, name in columns.items() if name]
            texts[f"source {source.name}: reads {', '.join(named)}"] = None
    return list(texts)


def hint_texts(prepared: Prepared) -> list[str]:
    """A sentence on each source block of which settings reject much, and on what concerns all of them."""
    return [f"source {name}: {hint}" if name else hint for name, hint in prepared.hints.items()]


def reuse_texts(prepared: Prepared) -> list[str]:
    """A line on the preparation, or on decisions in it, if other code than the present made what is reused."""
    if prepared.reused:
        lines = [kinds.PREPARED.reused(prepared.prepared.parent, prepared.code_digest)]
    else:
        lines = [kinds.PREPARED.reused("decisions about traces", maker) for maker in prepared.decided_by]
    return [line for line in lines if line]


def read_prepared(folder: Path) -> Prepared:
    """What an earlier preparation into ``folder`` wrote and counted; InputError if there is none."""
    paths = [Path(folder) / name for name in (PREPARED, PROFILE_FILE, REJECTED_FILE)]
    prepared, *others = (read_metadata(path, REMEDY) for path in paths)
    if "rows_digest" not in prepared:
        raise InputError(f"{paths[0]}: not written by luffy targets; run it")
    run = ("rows_digest", "config_digest")
    if any(metadata.get(name) != prepared[name] for metadata in others for name in run):
        raise InputError(f"{folder}: prepared, profile and rejected are of different runs; prepare again")
    return Prepared(
        *paths,
        digest=prepared["rows_digest"],
        code_digest=prepared["code_digest"],
        config=TargetSettings.model_validate_json(prepared["config"], context=RECORDED),
        **{name: json.loads(prepared.get(name, "{}")) for name in COUNTED},
    )


def find_unchanged(folder: Path, inputs: dict[str, str]) -> Prepared | None:
    """Return the preparation in ``folder`` if it has the same content and settings."""
    try:
        metadata = read_metadata(folder / PREPARED, REMEDY)
        unchanged = all(metadata.get(name) == value for name, value in inputs.items())
        return replace(read_prepared(folder), reused=True) if unchanged else None
    except InputError:
        return None  # nothing is there, or something else: it is prepared


def require_targets(prepared: Prepared) -> None:
    """Raise an InputError with the counts of each filter if no target is left."""
    if prepared.counts["kept"]:
        return
    steps = sorted(prepared.filter_counts, key=lambda step: -step["removed"])
    taken = [f"{step['removed']:,} {step['filter']} ({step['title']})" for step in steps[:EXPLAINED]]
    taken += [f"{step['removed']:,} {step['filter']}" for step in steps[EXPLAINED:]]
    example = read_example(prepared.rejected, steps[0]["filter"])
    hints = "".join(f" {text[:1].upper()}{text[1:]}." for text in hint_texts(prepared))
    raise InputError(
        f"source {', '.join(prepared.config.paths)}: none of {prepared.counts['read']:,} traces can be a target: "
        f"{'; '.join(taken)}.{example}{hints} {prepared.rejected} says why of each: correct what it shows, or give "
        "other traces"
    )


def read_example(rejected: Path, reason: str) -> str:
    """A sentence on the first trace that was rejected for ``reason``; none if it says no more than the reason."""

    table = read_shards(rejected, columns=["id", "detail"], filters=[("reason", "=", reason)])
    rows = table.slice(0, 1).to_pylist()
    detail = " ".join(str((rows[0]["detail"] if rows else None) or "").split())
    return f" The first, {rows[0]['id']}: {detail}." if detail else ""
