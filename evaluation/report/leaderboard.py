"""Every checkpoint that was graded on the same problems in the same way, ranked.

A board is made of what can be compared: the same benchmarks, problems, samples a problem, sampling and prompt. Its
order is that of the unweighted mean over benchmarks; the difference to the first is paired by problem, so models whose
interval holds zero share its place as far as these problems can tell.
"""

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.code import SHORT_DIGEST
from core.errors import InputError
from core.files import digest_bytes
from core.prompts import PromptRecord
from evaluation.statistics.scores import paired_difference, summarize

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Place:
    """One checkpoint on a board. Shares of right samples; the difference is that to the first place, 95% interval."""

    checkpoint: str
    model: str  # its folder or hub id when it was generated
    scores: Mapping[str, float]
    mean: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Board:
    """Checkpoints that were evaluated alike."""

    benchmarks: tuple[str, ...]
    problems: int
    how: str
    places: tuple[Place, ...]


def collect(folder: Path) -> list[Board]:
    """The boards of all graded tables below ``folder``, the one with most checkpoints first. InputError if none."""
    found: dict[tuple[str, str], dict[str, dict[str, pa.Table]]] = {}  # (how, checkpoint) -> benchmark -> digest
    for file in sorted(Path(folder).rglob("*.parquet")):
        table = _read(file)
        if table is None or not table.num_rows:
            continue
        names = table["benchmark"].unique().to_pylist()
        metadata = table.schema.metadata or {}
        if len(names) != 1 or b"checkpoint" not in metadata:
            continue
        how = _how(table, metadata)
        place = found.setdefault((how, metadata[b"checkpoint"].decode()), {})
        place.setdefault(names[0], {})[_problems(table)] = table
    if not found:
        raise InputError(
            f"{folder}: no graded results below it; make some with python -m evaluation compare, or make demo"
        )
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, dict[str, pa.Table]]] = {}
    for (how, checkpoint), benchmarks in found.items():
        problems = tuple(
            sorted((name, max(tables, key=lambda d: tables[d].num_rows)) for name, tables in benchmarks.items())
        )
        tables = {name: benchmarks[name][digest] for name, digest in problems}
        groups.setdefault((how, problems), {})[checkpoint] = tables
    boards = [_board(how, checkpoints) for (how, _), checkpoints in groups.items()]
    return sorted(boards, key=lambda board: (-len(board.places), -len(board.benchmarks), board.how))


def leaderboard_text(boards: Sequence[Board]) -> str:
    """The boards as tables for the terminal."""
    parts = []
    for board in boards:
        width = max(len(_name(place)) for place in board.places)
        lines = [f"{board.problems} problems; {board.how}"]
        lines.append(
            f"  # {'model':{width}} {'mean':>7}  difference from #1   " + " ".join(f"{n:>15}" for n in board.benchmarks)
        )
        for number, place in enumerate(board.places, 1):
            scores = " ".join(f"{place.scores[name]:>15.1%}" for name in board.benchmarks)
            lines.append(
                f"{number:3} {_name(place):{width}} {place.mean:>7.1%}  {_difference(number, place):20} {scores}"
            )
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def leaderboard_markdown(boards: Sequence[Board]) -> str:
    """The boards as Markdown tables."""
    parts = [
        "# Leaderboard\n\nUnweighted mean over benchmarks, percent of samples right; 95% intervals paired by problem."
    ]
    for board in boards:
        lines = [f"{board.problems} problems; {html.escape(board.how, quote=False)}", ""]
        lines.append("| # | model | mean | difference from #1 | " + " | ".join(board.benchmarks) + " |")
        lines.append("|--:|---|--:|:-:|" + "--:|" * len(board.benchmarks))
        for number, place in enumerate(board.places, 1):
            scores = " | ".join(f"{place.scores[name]:.1%}" for name in board.benchmarks)
            name = html.escape(_name(place), quote=False).replace("|", "\\|")
            lines.append(f"| {number} | {name} | {place.mean:.1%} | {_difference(number, place)} | {scores} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _board(how: str, checkpoints: "Mapping[str, Mapping[str, pa.Table]]") -> Board:
    summaries = {c: {n: summarize(t) for n, t in tables.items()} for c, tables in checkpoints.items()}
    means = {c: math.fsum(s.mean for s in found.values()) / len(found) for c, found in summaries.items()}
    order = sorted(means, key=lambda checkpoint: (-means[checkpoint], checkpoint))
    first = checkpoints[order[0]]
    places = []
    for checkpoint in order:
        tables = checkpoints[checkpoint]
        differences = [paired_difference(first[name], tables[name]) for name in first]
        mean = math.fsum(d.mean for d in differences) / len(differences)
        half = math.sqrt(math.fsum(((d.high - d.low) / 2) ** 2 for d in differences)) / len(differences)
        metadata = next(iter(tables.values())).schema.metadata or {}
        places.append(
            Place(
                checkpoint=checkpoint,
                model=metadata.get(b"model", b"").decode(),
                scores={name: s.mean for name, s in summaries[checkpoint].items()},
                mean=means[checkpoint],
                difference=mean,
                low=mean - half,
                high=mean + half,
            )
        )
    return Board(tuple(first), sum(s.problems for s in summaries[order[0]].values()), how, tuple(places))


def _read(file: Path) -> "pa.Table | None":
    """A GRADED table, None for another kind of file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from core.schemas import GRADED

    try:
        table = pq.read_table(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{file}: not a readable parquet file ({error}); delete it or grade again") from error
    return table if set(GRADED.names) <= set(table.schema.names) else None


def _how(table: "pa.Table", metadata: Mapping[bytes, bytes]) -> str:
    sampling = json.loads(metadata.get(b"sampling", b"{}"))
    prompt = PromptRecord.of(table).frame
    settings = ", ".join(f"{name} {value}" for name, value in sampling.items() if name != "samples")
    frame = "not recorded" if prompt is None else digest_bytes(prompt.encode())[:8]
    thoughts = ", answers after </think>" if json.loads(metadata.get(b"grading", b"{}")).get("thinking") else ""
    return f"{settings or 'sampling not recorded'}, prompt {frame}{thoughts}"


def _problems(table: "pa.Table") -> str:
    """Names the problems, and how many samples each has."""
    return digest_bytes(json.dumps(sorted(table["id"].to_pylist())).encode())


def _name(place: Place) -> str:
    parts = Path(place.model).parts[-3:] if place.model else ()
    return f"{place.checkpoint[:SHORT_DIGEST]} {'/'.join(parts)}".strip()


def _difference(number: int, place: Place) -> str:
    if number == 1:
        return ""
    return f"{100 * place.difference:+.1f} [{100 * place.low:+.1f}, {100 * place.high:+.1f}]"
