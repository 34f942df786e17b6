"""Rounds of questions to a teacher: which problems it is asked, and the training set of all problems.

A problem that the teacher was not asked, or whose trace no filter let through, is a row without a target: the policy
samples it alone.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.parquet import read_shards
from grading.row_fields import DATA_SOURCE
from targets.select.selection import rank
from targets.select.split import Split
from targets.source_settings import Source
from targets.target_tables import RowDigest, TableWriter, read_metadata

if TYPE_CHECKING:
    import pyarrow as pa

REMEDY = "materialize the targets of the round again"


def unsolved(problems: Sequence[str], rates: Mapping[str, float] | None, below: float, seed: int) -> list[str]:
    """The problems whose pass rate is less than ``below``, in the order in which the teacher is asked.

    The lowest pass rates come first, and ``seed`` orders equal ones. A problem that nobody sampled is not among them.

    >>> unsolved(["a", "b", "c", "d"], {"a": 0.2, "b": 1.0, "c": 0.0}, below=0.25, seed=0)
    ['c', 'a']

    Args:
        problems: the names of all problems.
        rates: the pass rate of each. None: no policy was trained yet, so that all problems count as unsolved.
        below: bound of the pass rates.
        seed: random seed.
    """
    known = dict.fromkeys(problems, 0.0) if rates is None else rates
    chosen = [problem for problem in problems if known.get(problem, 1.0) < below]
    return sorted(chosen, key=lambda problem: (known[problem], rank(f"{seed}/rounds/{problem}")))


def repetitions(targets: int, others: int, share: float) -> int:
    """How often each target stands in a training set, so that at least the ``share`` of its rows has one.

    >>> repetitions(20, 140, 0.5), repetitions(20, 140, 0.0), repetitions(100, 60, 0.5)
    (7, 1, 1)
    """
    return max(1, ceil(share / (1 - share) * others / targets))


def question(row: Mapping[str, Any]) -> str:
    """What the last message of a row of targets or of BENCHMARK asks: the name of its problem in a run's samples."""
    return row["prompt"][-1]["content"]


def write_training_set(split: Split, problems: "pa.Table", source: Source, share: float, out: Path) -> str:
    """Write the targets of ``split`` and a row without a target for each other one of ``problems`` to the file ``out``.

    A target that is repeated has another id in each row (``ID``, ``ID#2``, ...), so that its samples differ.

    Args:
        split: of the traces so far.
        problems: BENCHMARK rows, as `targets.problems.read_problems` makes them.
        source: of the problems.
        share: least share of rows with a target.
        out: the training file (TARGET).

    Returns:
        The digest of its rows, which is its data version.
    """
    targets = read_shards(split.train)
    metadata = read_metadata(split.train, REMEDY)
    del metadata["rows_digest"]  # of the targets alone
    taken = {question(row) for row in targets.select(["prompt"]).to_pylist()}
    others = [row for row in problems.to_pylist() if question(row) not in taken]
    digest = RowDigest(metadata["verifiers"])
    with TableWriter(out, targets.schema.remove_metadata(), metadata) as writer:
        rows = [*_repeated(targets, repetitions(targets.num_rows, len(others), share))]
        rows += [_without_target(row, source) for row in others]
        for number, row in enumerate(rows):
            row["extra_info"]["index"] = number
            writer.add(row)
            digest.add(row)
        writer.close({"rows_digest": digest.hexdigest()})
    return digest.hexdigest()


def _repeated(targets: "pa.Table", times: int) -> Iterator[dict[str, Any]]:
    for number in range(1, times + 1):
        for row in targets.to_pylist():
            info = row["extra_info"]
            yield {**row, "extra_info": {**info, "id": info["id"] if number == 1 else f"{info['id']}#{number}"}}


def _without_target(row: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """The row of a problem that has no target."""
    fields = {name: value for name, value in json.loads(row["fields"]).items() if name != DATA_SOURCE}
    info = {"split": "train", "index": 0, "id": f"problem:{row['id']}", "source": source.path}
    return {
        DATA_SOURCE: source.name,
        "prompt": row["prompt"],
        "target": [],
        "ability": source.ability,
        "reward_model": {"style": source.spec.type, "ground_truth": row["gold"]},
        "extra_info": info | ({"fields": json.dumps(fields)} if source.fields else {}),
    }
