"""Carry ExGRPO's replay from the trainer to its samples and checkpoints; `methods.exgrpo` has the rules."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tensordict import NonTensorData, NonTensorStack, TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn

from core.files import write_table
from training.algorithms.methods.exgrpo import Experience, ReplayStore, Trajectory

FILE = "replay.parquet"  # file in the folder of a checkpoint
SCHEMA = pa.schema(
    {
        "prompt": pa.int64(),
        "successes": pa.int32(),
        "tokens": pa.list_(pa.int32()),
        "log_probs": pa.list_(pa.float32()),
    }
)


def with_replay(batch: TensorDict, trajectory: Trajectory | None) -> TensorDict:
    """Return ``batch`` of one prompt with ``trajectory`` as its first sample; None: it is generated as usual."""
    content = {} if trajectory is None else {"tokens": trajectory.tokens, "log_probs": trajectory.log_probs}
    batch["replay"] = NonTensorStack.from_list([NonTensorData(content)])
    return batch


def prompt_batch(record: dict[str, Any]) -> TensorDict:
    """Return a record of verl's dataset as a batch of one prompt, as its dataloader makes it."""
    uid: Any = np.array([str(uuid4())], dtype=object)  # a field, as the arrays of the dataloader are
    return tu.get_tensordict(collate_fn([record]) | {"uid": uid})


def insert(store: ReplayStore, rows: TensorDict, index: Sequence[str]) -> None:
    """Give ``store`` the groups of a batch, in its order.

    Args:
        rows: padded; what the trainer knows of each sample before the update.
        index: the group of each sample.
    """
    solved, generated = rows["solved"], rows["prefix_length"] == 0
    groups: dict[str, list[int]] = {}
    for row, group in enumerate(index):
        groups.setdefault(group, []).append(row)
    for members in groups.values():
        right = [row for row in members if solved[row]]
        trajectories = [_trajectory(rows[row]) for row in right if generated[row]]
        store.add(int(rows["prompt_key"][members[0]]), len(right), len(members), trajectories)


def _trajectory(row: TensorDict) -> Trajectory:
    mask = row["response_mask"].bool()
    return Trajectory(row["responses"][mask].tolist(), row["old_log_probs"][mask].tolist())


def write_store(store: ReplayStore, folder: Path) -> None:
    """Write the trajectories of ``store`` into the checkpoint ``folder``."""
    rows = [
        {"prompt": prompt, "successes": kept.successes, **vars(trajectory)}
        for prompt, kept in sorted(store.experiences.items())
        for trajectory in kept.trajectories
    ]
    write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / FILE)


def read_store(folder: Path) -> dict[int, Experience]:
    """Return the trajectories that `write_store` wrote."""
    successes: dict[int, int] = {}
    trajectories: dict[int, list[Trajectory]] = {}
    for row in pq.read_table(folder / FILE, schema=SCHEMA).to_pylist():
        successes[row["prompt"]] = row["successes"]
        trajectories.setdefault(row["prompt"], []).append(Trajectory(row["tokens"], row["log_probs"]))
    return {prompt: Experience(successes[prompt], kept) for prompt, kept in trajectories.items()}
