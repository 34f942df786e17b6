"""ExGRPO: earlier right samples of the policy itself."""

from collections.abc import Mapping
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
from training.algorithms.replay import Replay, ReplayStore, Trajectory
from training.algorithms.samples import Samples, Signal
from training.algorithms.term import Loss
from training.later import Tensor
from training.methods.given import Metrics, Prompt, RunValues, Start, Tools
from training.methods.off_policy import OffPolicy

PATHS = "replay.parquet"  # in the folder of a checkpoint
SCHEMA = pa.schema(
    {
        "prompt": pa.int64(),
        "successes": pa.int32(),
        "tokens": pa.list_(pa.int32()),
        "log_probs": pa.list_(pa.float32()),
    }
)


class Exgrpo(OffPolicy):
    """ExGRPO (arXiv 2510.02245): some groups repeat an earlier right sample of the policy."""

    on_policy: AnyOnPolicyLoss = Ppo(clip=None)
    clip: Clip = Clip()  # of the updates before replay starts
    off_policy: OffPolicyRatio = OffPolicyRatio(reshape=PDivP(), phi="recorded", epsilon=0.0)
    replay: Replay = Replay()
    skip_grad_norm: Positive | None = 500.0
    _store: ReplayStore = PrivateAttr()
    _replayed: Mapping[int, Trajectory] = PrivateAttr(default_factory=dict)  # by the next batch's prompts with one

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._store = ReplayStore(self.replay)

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
        return replace(super().signal(samples, rewards, step), loss="policy" if self._store.started else "clipped")

    def plan(self, prompt: Prompt, n: int) -> list[Start]:
        replayed = self._replayed.get(prompt.key)
        first = Start() if replayed is None else Start(tokens=replayed.tokens, log_probs=replayed.log_probs)
        return [first, *[Start()] * (n - 1)]

    def begin_epoch(self, prompts: int, batch: int) -> None:
        self._store.start_epoch(prompts, batch)

    def choose(self, tools: Tools, prompts: int) -> list[int]:
        drawn = self._store.draw(prompts, tools.n, stable_hash(tools.seed, tools.global_steps, "replay"))
        kept = {prompt: self._store.experiences[prompt] for prompt in drawn}
        answers = [(prompt, path.tokens) for prompt, one in kept.items() for path in one.trajectories]
        values = iter(tools.entropies(answers) if answers else ())
        self._replayed = {prompt: one.choose([next(values) for _ in one.trajectories]) for prompt, one in kept.items()}
        return drawn

    def skips(self, prompt: int, prompts: int) -> bool:
        others = len(self._replayed) < prompts - len(self._store.absent)
        return prompt in self._store.absent or (others and prompt in self._replayed)

    def note(self, samples: Samples, tools: Tools) -> Metrics:
        rows, solved = samples.rows, samples.solved
        for members in samples.groups():
            right = [row for row in members if solved[row]]
            paths = [Trajectory(*samples.trajectory(row)) for row in right if rows["prefix_length"][row] == 0]
            self._store.add(int(rows["prompt_key"][members[0]]), len(right), len(members), paths)
        sampled = solved[samples.sampled & samples.on_policy].float()
        # The batch after this one is the first that is kept.
        self._store.note_success(float(sampled.mean()) if len(sampled) else 0.0)
        figures = {"stored": len(self._store.experiences), "retired": len(self._store.retired)}
        return {f"replay/{name}": float(value) for name, value in figures.items()}

    def state(self) -> dict[str, Any]:
        store = self._store
        kept = {"retired": sorted(store.retired), "absent": sorted(store.absent), "replaying": store.started}
        return super().state() | kept

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._store.retired, self._store.absent = set(state["retired"]), set(state["absent"])
        self._store.started = state["replaying"]

    def save(self, folder: Path) -> None:
        super().save(folder)
        write_table(pa.Table.from_pylist(self._store.rows(), schema=SCHEMA), folder / PATHS)

    def load(self, folder: Path) -> None:
        super().load(folder)
        self._store.take(pq.read_table(folder / PATHS, schema=SCHEMA).to_pylist())
