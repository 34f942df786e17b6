"""ExGRPO: earlier right samples of the policy itself."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import PrivateAttr

from core.files import write_table
from training.algorithms.derived_seeds import stable_hash
from training.algorithms.off_policy import OffPolicyRatio, PDivP
from training.algorithms.on_policy import AnyOnPolicyLoss, Clip, Ppo
from training.algorithms.options import Positive, contradiction
from training.algorithms.replay import Experience, Replay, Trajectory, draw
from training.algorithms.samples import Samples, Signal
from training.algorithms.term import Loss
from training.later import Tensor
from training.methods.given import Metrics, Prompt, RunValues, Start, Tools
from training.methods.off_policy import OffPolicy

PATHS = "replay.parquet"  # in the folder of a checkpoint
INTEGERS, NUMBERS = pa.list_(pa.int32()), pa.list_(pa.float32())
SCHEMA = pa.schema(
    {"prompt": pa.int64(), "successes": pa.int32(), "tokens": INTEGERS, "log_probs": NUMBERS, "mask": INTEGERS}
)


class Exgrpo(OffPolicy):
    """ExGRPO (arXiv 2510.02245): some groups repeat an earlier right sample of the policy.

    Replay starts with the first batch of which more than ``replay.start`` is right, and the store fills from the batch
    after it. If all samples of a group are right, its prompt retires for good, whether replay has started or not. A
    group without a right sample changes nothing.
    """

    on_policy: AnyOnPolicyLoss = Ppo(clip=None)
    clip: Clip = Clip()  # of the updates before replay starts
    off_policy: OffPolicyRatio = OffPolicyRatio(reshape=PDivP(), phi="recorded", epsilon=0.0)
    replay: Replay = Replay()
    skip_grad_norm: Positive | None = 500.0
    _stored: dict[int, Experience] = PrivateAttr(default_factory=dict)
    _retired: set[int] = PrivateAttr(default_factory=set)
    _absent: set[int] = PrivateAttr(default_factory=set)  # retired prompts that have left the dataset
    _started: bool = PrivateAttr(False)
    _replayed: Mapping[int, Trajectory] = PrivateAttr(default_factory=dict)  # by the next batch's prompts with one

    def check(self, run: RunValues) -> None:
        super().check(run)
        if run.n < 2:
            raise contradiction("method.type", "exgrpo", "rollout.n", run.n, "one sample of a group is replayed")
        why = "what a step replays depends on all groups of the step before"
        if run.rollouts != "sync":
            raise contradiction("method.type", "exgrpo", "rollouts.type", run.rollouts, why)
        if self.prompts is not None:
            raise contradiction("method.type", "exgrpo", "method.prompts", "set", "replay chooses prompts itself")
        if self.filter is not None:
            raise contradiction("method.type", "exgrpo", "method.filter", "set", why)

    @property
    def by_prompt(self) -> bool:
        return True

    @property
    def chooses(self) -> bool:
        return True

    def fields(self) -> list[str]:
        return [*super().fields(), "responses"]

    def losses(self) -> dict[str, Loss]:
        clipped = self.model_copy(update={"on_policy": Ppo(clip=self.clip)})
        return {"policy": Loss(tuple(self.terms()), self.reduce.type)} | {
            "clipped": Loss(tuple(clipped.terms()), self.reduce.type)
        }

    def signal(self, samples: Samples, rewards: Tensor, step: int) -> Signal:
        return replace(super().signal(samples, rewards, step), loss="policy" if self._started else "clipped")

    def plan(self, prompt: Prompt, n: int) -> list[Start]:
        replayed = self._replayed.get(prompt.key)
        first = Start() if replayed is None else Start(**replayed._asdict())
        return [first, *[Start()] * (n - 1)]

    def begin_epoch(self, prompts: int, batch: int) -> None:
        if prompts - len(self._retired) >= batch:
            self._absent = set(self._retired)

    def choose(self, tools: Tools, prompts: int) -> list[int]:
        size, seed = int(self.replay.share * prompts), stable_hash(tools.seed, tools.global_steps, "replay")
        drawn = draw(self._stored, size, tools.n, seed) if self._started else []
        answers = [(prompt, path) for prompt in drawn for path in self._stored[prompt].trajectories]
        entropies = tools.entropies(answers) if answers else []
        surest: dict[int, tuple[float, Trajectory]] = {}
        for (prompt, path), entropy in zip(answers, entropies, strict=True):
            if prompt not in surest or entropy < surest[prompt][0]:
                surest[prompt] = entropy, path
        self._replayed = {prompt: path for prompt, (_, path) in surest.items()}
        return drawn

    def skips(self, prompt: int, prompts: int) -> bool:
        others = len(self._replayed) < prompts - len(self._absent)
        return prompt in self._absent or (others and prompt in self._replayed)

    def note(self, samples: Samples, tools: Tools) -> Metrics:
        rows, solved = samples.rows, samples.solved
        for members in samples.groups():
            right = [row for row in members if solved[row]]
            paths = [samples.trajectory(row) for row in right if rows["prefix_length"][row] == 0]
            self._add(int(rows["prompt_key"][members[0]]), len(right), len(members), paths)
        sampled = solved[samples.sampled & samples.on_policy].float()
        self._started = self._started or (len(sampled) > 0 and float(sampled.mean()) > self.replay.start)
        return {"replay/stored": float(len(self._stored)), "replay/retired": float(len(self._retired))}

    def _add(self, prompt: int, successes: int, samples: int, right: Sequence[Trajectory]) -> None:
        """Take in the latest group of ``prompt``, of which the policy generated the samples ``right``."""
        if successes == samples:
            self._retired.add(prompt)
            self._stored.pop(prompt, None)
        earlier = self._stored.get(prompt, Experience(0, ()))
        if self._started and successes and prompt not in self._retired and (right or earlier.trajectories):
            self._stored[prompt] = earlier.add(successes, right)

    def state(self) -> dict[str, Any]:
        stored = {"retired": sorted(self._retired), "absent": sorted(self._absent), "replaying": self._started}
        return super().state() | stored

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._retired, self._absent, self._started = set(state["retired"]), set(state["absent"]), state["replaying"]

    def save(self, folder: Path) -> None:
        super().save(folder)
        rows = [
            {"prompt": prompt, "successes": stored.successes, **path._asdict()}
            for prompt, stored in sorted(self._stored.items())
            for path in stored.trajectories
        ]
        write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / PATHS)

    def load(self, folder: Path) -> None:
        super().load(folder)
        self._stored = {}
        for row in pq.read_table(folder / PATHS, schema=SCHEMA).to_pylist():
            _, paths = self._stored.setdefault(row["prompt"], Experience(row["successes"], []))
            paths.append(Trajectory(row["tokens"], row["log_probs"], row["mask"]))  # pyright: ignore[reportAttributeAccessIssue]
