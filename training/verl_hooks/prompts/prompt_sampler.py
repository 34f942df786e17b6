"""What a training keeps about prompts from step to step.

That is which prompts have off-policy samples, which are learned from supervised, and the samples that ExGRPO replays
(`methods.exgrpo` has the rules).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tensordict import TensorDict

from core.files import write_table
from training.algorithms.methods.exgrpo import Experience, ReplayStore, Trajectory
from training.algorithms.methods.relift import UnsolvedPrompts
from training.algorithms.off_policy_schedule import OffPolicySchedule
from training.algorithms.options import MixedPolicyOptions
from training.job.checkpoints import TrainerState
from training.verl_hooks.batch import Samples

# The mean entropies of trajectories, each with its prompt, under the current policy.
Entropies = Callable[[Sequence[tuple[int, Trajectory]]], Sequence[float]]

FILE = "replay.parquet"  # file in the folder of a checkpoint
SCHEMA = pa.schema(
    {
        "prompt": pa.int64(),
        "successes": pa.int32(),
        "tokens": pa.list_(pa.int32()),
        "log_probs": pa.list_(pa.float32()),
    }
)


class PromptMemory:
    """Prompts by their `prompt_key`, for ``mixed.off_policy_schedule``, ``mixed.relift`` and ``mixed.replay``."""

    def __init__(self, options: MixedPolicyOptions, n: int):
        self.relift, self.replays = options.relift.use, options.replay.use
        self.schedule = OffPolicySchedule(options.off_policy_schedule)
        self.unsolved = UnsolvedPrompts(options.relift.buffer)
        self.replay = ReplayStore(options.replay, n)
        self._replayed: dict[int, Trajectory] = {}  # prompts of the next batch of which a sample is replayed, and it
        self._waiting: list[int] = []  # those of them that are not in it yet

    @property
    def used(self) -> bool:
        """Whether each sample has to name its prompt."""
        return self.schedule.depends or self.relift or self.replays

    def with_off_policy(self, prompts: Sequence[int], pass_rates: Sequence[float] | None) -> list[bool]:
        """Say for each prompt whether its group has off-policy samples; ``pass_rates`` if the rule needs them."""
        rates = [None] * len(prompts) if pass_rates is None else pass_rates
        return [self.schedule.applies(prompt, rate) for prompt, rate in zip(prompts, rates, strict=True)]

    def choose_replayed(self, batch_size: int, seed: int, entropies: Entropies) -> None:
        """Choose what the next batch replays: of each prompt that is drawn the sample of the lowest entropy."""
        prompts = self.replay.draw(batch_size, seed)
        pairs = [(prompt, one) for prompt in prompts for one in self.replay.experiences[prompt].trajectories]
        values = iter(entropies(pairs) if pairs else ())
        kept = {prompt: self.replay.experiences[prompt] for prompt in prompts}
        self._replayed = {
            prompt: one.choose(list(islice(values, len(one.trajectories)))) for prompt, one in kept.items()
        }
        self._waiting = list(self._replayed)

    def next_replayed(self) -> tuple[int, Trajectory] | None:
        """Return the next prompt of the batch of which a sample is replayed, and that sample."""
        if not self._waiting:
            return None
        prompt = self._waiting.pop(0)
        return prompt, self._replayed[prompt]

    def is_spent(self, prompt: int, prompts: int) -> bool:
        """Return whether ``prompt`` left the dataset of ``prompts``, or the batch replays it and others are left."""
        if prompt in self.replay.absent:
            return True
        return prompt in self._replayed and len(self._replayed) < prompts - len(self.replay.absent)

    def note(self, samples: Samples, has_target: Callable[[int], bool]) -> dict[str, float]:
        """Take in the outcomes of the samples of a step; return metrics of the memory."""
        rows, sampled, solved, on_policy = samples.rows, samples.sampled, samples.solved, samples.on_policy
        if self.schedule.depends:
            self.schedule.solve(rows["prompt_key"].tolist(), solved.tolist(), on_policy.tolist())
        if self.relift:
            able = sampled & torch.tensor(list(map(has_target, rows["prompt_key"].tolist())))
            self.unsolved.add(solved[able].tolist(), rows["prompt_key"][able].tolist(), on_policy[able].tolist())
        if not self.replays:
            return {}
        insert(self.replay, rows[sampled], samples.index[sampled.numpy()].tolist())
        right = solved[sampled & on_policy].float()
        # The batch after this one is the first that is kept.
        self.replay.note_success(float(right.mean()) if len(right) else 0.0)
        stored, retired = len(self.replay.experiences), len(self.replay.retired)
        return {"replay/stored": float(stored), "replay/retired": float(retired)}

    def save(self, state: TrainerState, folder: Path) -> TrainerState:
        """Return ``state`` with what it keeps of the prompts; the samples to replay go to the checkpoint ``folder``."""
        if self.replays:
            write_store(self.replay, folder)
        return replace(
            state,
            solved=sorted(self.schedule.solved),
            unsolved=self.unsolved.prompts,
            retired=sorted(self.replay.retired),
            absent=sorted(self.replay.absent),
            replaying=self.replay.started,
        )

    def load(self, state: TrainerState, folder: Path) -> None:
        """Take over what `save` saved."""
        self.schedule.solved.update(state.solved)
        self.unsolved.prompts = list(state.unsolved)
        self.replay.retired, self.replay.absent = set(state.retired), set(state.absent)
        self.replay.started = state.replaying
        if self.replays:
            self.replay.experiences = read_store(folder)


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
