"""Groups that get more samples once the first ones are graded, where the method asks for them (`Method.draw_more`)."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from training.config.method_keys import of_run
from training.methods.given import Group, Prompt
from training.verl_hooks.batch import PLAN
from training.verl_hooks.reward import is_solved, reward_info


@dataclass
class OpenGroup:
    """A group that is being drawn: samples that are not finished, and what is known of the others."""

    left: int
    draws: int = 0
    solved: dict[int, bool] = field(default_factory=dict)


class GroupLoops:
    """For a worker of verl: the last sample of a prompt to finish draws what the method adds."""

    config: Any  # verl's

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.method = of_run(self.config)
        self.n = self.config.actor_rollout_ref.rollout.n
        self.groups: dict[str, OpenGroup] = {}

    async def _run_agent_loop(
        self, sampling_params: dict[str, Any], trajectory: dict[str, Any], *, session_id: int, **row: Any
    ) -> None:
        draw = partial(super()._run_agent_loop, sampling_params, trajectory)  # pyright: ignore[reportAttributeAccessIssue]  verl's
        if trajectory["validate"]:
            await draw(session_id=session_id, **row)
            return
        uid, plan = row["uid"], row[PLAN]
        group = self.groups.setdefault(uid, OpenGroup(self.n))
        try:
            if session_id < len(plan["starts"]):
                await draw(session_id=session_id, **row)
            group.left -= 1  # it stays above 0 if a sample fails, and verl drops the group
            if group.left == 0:
                await self._draw_more(draw, group, row)
        finally:
            if group.left == 0:
                self.groups.pop(uid, None)

    async def _draw_more(self, draw: Any, group: OpenGroup, row: dict[str, Any]) -> None:
        plan = row[PLAN]
        starts = dict(enumerate(plan["starts"]))
        while more := self.method.draw_more(Prompt(**plan["prompt"]), Group(group.solved, group.draws), self.n):
            again = sorted(more.keys() & group.solved.keys())
            starts |= {number: start._asdict() for number, start in more.items()}
            new = {**plan, "starts": [starts[number] for number in sorted(starts)], "again": again}
            await asyncio.gather(*(draw(session_id=number, **{**row, PLAN: new}) for number in more))

    async def _agent_loop_postprocess(self, output: Any, validate: bool, **row: Any) -> None:
        await super()._agent_loop_postprocess(output, validate, **row)  # pyright: ignore[reportAttributeAccessIssue]  verl's
        if (group := self.groups.get(row["uid"])) is not None:
            group.draws += 1
            solved = is_solved(reward_info(output.extra_fields), output.reward_score)
            group.solved[int(row["session_id"])] = solved


class _GroupLoopWorker(GroupLoops, AgentLoopWorkerTQ.__ray_metadata__.modified_class):  # pyright: ignore[reportAttributeAccessIssue]  Ray's
    pass


GroupLoopWorker = ray.remote(_GroupLoopWorker)


class GroupLoopManager(AgentLoopManagerTQ):
    """verl's manager of agent loops, with workers that ask the method for more samples."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = GroupLoopWorker
