"""The ledger of a finished training: every use of a target, and a verdict on each target.

The trainer writes ``ledger/STEP.parquet`` (`training.verl_hooks.target_uses`). When the run ends, `write_ledger` puts
the steps that the policy has seen into ``ledger.parquet`` and one row per target of the training set into
``targets.parquet``.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from core.files import write_table
from core.ledger_verdicts import KNOWN, LEARNED_FILE, LEDGER, SOLVED, VERDICTS
from core.parquet import read_parquet, read_shards
from core.schemas import LEARNED, USES
from training.algorithms.derived_seeds import target_ids

USES_FILE = "ledger.parquet"


def write_ledger(run: Path, targets: Path, steps: int) -> dict[str, dict[str, int]] | None:
    """Write the two tables of the run in folder ``run``; of each source the number of its targets by verdict.

    None if the recipe of the run keeps no ledger.

    Args:
        run: a run folder.
        targets: the file of the training set.
        steps: the last step that the policy has seen.
    """
    files = {int(file.stem): file for file in (run / LEDGER).glob("*.parquet") if file.stem.isdecimal()}
    if not files:
        return None
    seen = [files[step] for step in sorted(files) if step <= steps]
    advice = "remove it, and its uses do not count"
    uses = pa.concat_tables([USES.empty_table(), *(read_parquet(file, advice, schema=USES) for file in seen)])
    write_table(uses, run / USES_FILE)
    table = learned(uses, read_shards(targets))
    write_table(table, run / LEARNED_FILE)
    counts: dict[str, dict[str, int]] = {}
    grouped = table.group_by(["data_source", "verdict"]).aggregate([([], "count_all")]).to_pylist()
    for row in sorted(grouped, key=lambda row: (row["data_source"], list(VERDICTS).index(row["verdict"]))):
        counts.setdefault(row["data_source"], {})[row["verdict"]] = row["count_all"]
    return counts


def learned(uses: pa.Table, targets: pa.Table) -> pa.Table:
    """Return one row of `LEARNED` per row of ``targets`` (`TARGET`), in its order, from ``uses`` (`USES`) in theirs."""
    ids = target_ids(targets)
    place = {target: row for row, target in enumerate(ids)}
    count = len(ids)
    steps_used, shares = np.zeros(count, int), np.zeros(count)
    step, prob, solved = (np.full((2, count), np.nan) for _ in range(3))  # at the first use and at the last
    # A group can have several samples that start with its target.
    figures = [("prob", "mean"), ("solved", "max"), ("samples", "max"), ("loss_share", "sum")]
    for use in uses.group_by(["target", "step"]).aggregate(figures).sort_by("step").to_pylist():
        row = place[use["target"]]
        ends = slice(None) if steps_used[row] == 0 else slice(1, None)
        own = use["solved_max"] / use["samples_max"] if use["samples_max"] else np.nan
        step[ends, row], solved[ends, row] = use["step"], own
        prob[ends, row] = np.nan if use["prob_mean"] is None else use["prob_mean"]
        steps_used[row] += 1
        shares[row] += use["loss_share_sum"]
    prompts = targets["prompt"].combine_chunks()
    last_messages = prompts.values.take(pa.array(prompts.offsets.to_numpy()[1:] - 1))
    columns = {
        "target": ids,
        "data_source": targets["data_source"].combine_chunks(),
        "problem": last_messages.field("content"),
        "uses": steps_used,
        "first_step": step[0],
        "last_step": step[1],
        "first_prob": prob[0],
        "last_prob": prob[1],
        "first_solved": solved[0],
        "last_solved": solved[1],
        "loss_share": shares,
        "verdict": verdicts(steps_used, prob, solved),
    }
    arrays = (pa.array(values, from_pandas=True).cast(LEARNED.field(name).type) for name, values in columns.items())
    return pa.table(list(arrays), schema=LEARNED)


def verdicts(uses: np.ndarray, prob: np.ndarray, solved: np.ndarray) -> list[str]:
    """Return the verdict of each target, a name of `VERDICTS`.

    Args:
        uses: ``[targets]``: in how many steps each was used.
        prob: ``[2, targets]``: at the first use and at the last, the mean probability of its tokens; NaN: not measured.
        solved: ``[2, targets]``: the share of the policy's own samples that are right; NaN: there were none.
    """
    rose = prob[1] > prob[0]
    choices = {
        "unused": uses == 0,
        "known": solved[0] >= KNOWN,
        "unmeasured": np.isnan(prob).any(axis=0),
        "once": uses == 1,
        "taught": rose & (solved[1] > solved[0]),
        "imitated": rose,
        "contradicted": solved[1] >= SOLVED,
    }
    return np.select(list(choices.values()), list(choices), "not_learned").tolist()


def heaviest(run: Path, count: int = 20) -> list[list[str]]:
    """Return the targets with the largest shares of the loss in the run in folder ``run``, as cells of a table."""
    table = pq.read_table(run / LEARNED_FILE).sort_by([("loss_share", "descending")])
    total = table["loss_share"].to_numpy().sum() or 1.0
    return [
        [
            row["target"],
            row["problem"],
            f"{row['loss_share'] / total:.2%}",
            str(row["uses"]),
            _ends(row["first_prob"], row["last_prob"]),
            _ends(row["first_solved"], row["last_solved"]),
            row["verdict"].replace("_", " "),
        ]
        for row in table.slice(0, count).to_pylist()
    ]


def _ends(first: float | None, last: float | None) -> str:
    return "" if first is None or last is None else f"{first:.2f} to {last:.2f}"
