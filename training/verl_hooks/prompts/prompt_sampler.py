"""What a training keeps about prompts from step to step: which have off-policy samples, which
are learned from supervised, which are replayed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from training.algorithms.methods.exgrpo import ReplayStore, Trajectory
from training.algorithms.methods.relift import UnsolvedPrompts
from training.algorithms.off_policy_schedule import OffPolicySchedule
from training.algorithms.options import MixedPolicyOptions
from training.job.checkpoints import TrainerState
from training.verl_hooks.batch import Samples
from training.verl_hooks.prompts.experience_replay import insert, read_store, write_store

# The mean entropies of trajectories, each with its prompt, under the current policy.
Entropies = Callable[[Sequence[tuple[int, Trajectory]]], Sequence[float]]


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

    def note(self, samples: Samples, has_target: Callable[[int], bool], on_policy_reward: float) -> dict[str, float]:
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
        self.replay.note_success(on_policy_reward)  # the batch after this one is the first that is kept
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
