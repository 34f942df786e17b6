"""Mixed-policy rollouts: some samples of a group start with part of the target, or are all of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import uuid4

import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.utils.profiler import simple_timer

from core.model.episodes import Example, encode_episode
from core.model.prompts import encode_prompt
from grading.row_fields import PROBLEM, row_fields
from grading.tools.episode import Episode
from grading.tools.settings import ToolSettings
from grading.tools.tool import Context
from grading.tools.toolbox import Toolbox
from training.algorithms.derived_seeds import prompt_id, stable_hash
from training.algorithms.prefix import answer_prefix, cut_prefix
from training.config.method_keys import of_run
from training.config.teacher_settings import show_target
from training.config.to_verl import chat_template, tools_of
from training.methods.given import Start
from training.verl_hooks.asynchronous.vllm_client import VERSIONS
from training.verl_hooks.batch import EPISODE, OTHERS, PLAN, TARGET, TARGET_ID
from training.verl_hooks.reward import FINAL, TRUNCATED

NO_VERSION = -1
TOOL_WORKERS = 4  # calls of a tool at once


def batch_number(row: dict[str, Any]) -> int:
    """Return the number of the batch that a row was drawn for, from 1, which is the step in synchronous training."""
    return int(row.get("batch_number", row["global_steps"]))


def planned(row: dict[str, Any]) -> list[Start]:
    """Return how the samples of a row start, as the trainer has planned it; [] for a row of a validation."""
    return [Start(**start) for start in row[PLAN]["starts"]] if row.get(PLAN) else []


def start_of(row: dict[str, Any]) -> Start:
    """Return how this sample of a row starts."""
    starts = planned(row)
    return starts[int(row["session_id"])] if starts else Start()


def with_target(row: dict[str, Any], start: Start) -> dict[str, Any]:
    """Return a row with the target that a sample starts with: its own, or another one of its problem."""
    return {**row, **row[PLAN][OTHERS][start.target - 1]} if start.ratio and start.target else row


class OffPolicyOutput(AgentLoopOutput):
    """A sample with ``prefix_length`` off-policy tokens at the start of its response; it cost ``requests`` generations.

    ``versions`` has for each response token the version of the weights that sampled it: the number of updates they had
    seen, and `NO_VERSION` for off-policy tokens. ``off_policy_log_probs`` are the teacher's, one for each off-policy
    token that counts; None where the method does not read them. ``guided``: its prompt shows a part of the target.
    ``group_off_policy``: some samples of its group start with a part of the target, or their prompts show one.
    ``teacher_log_probs`` are a teacher's for each token of the response; None without a teacher. For a divergence these
    are ``top_ids`` and ``top_log_probs``, ``[length, k]``, and ``teacher_mass``, ``[length]``, the sum of the ``k``.
    """

    prefix_length: int
    requests: int
    versions: list[int]
    off_policy_log_probs: list[float] | None = None
    guided: bool = False
    group_off_policy: bool = False
    teacher_log_probs: list[float] | None = None
    top_ids: Any = None
    top_log_probs: Any = None
    teacher_mass: Any = None

    def as_dict(self) -> dict[str, Any]:
        # As tensors they become fields of the batch; verl would carry plain ints outside it.
        fields = {"prefix_length": torch.tensor(self.prefix_length), "requests": torch.tensor(self.requests)}
        fields["rollout_versions"] = torch.tensor(self.versions)
        fields["guided"] = torch.tensor(int(self.guided))
        fields["group_off_policy"] = torch.tensor(int(self.group_off_policy))
        if self.teacher_log_probs is not None:
            fields["teacher_log_probs"] = torch.tensor(self.teacher_log_probs)
        if self.off_policy_log_probs is not None:
            log_probs = torch.zeros(len(self.response_ids))
            mask = torch.tensor(self.response_mask[: self.prefix_length])
            log_probs[: self.prefix_length][mask > 0] = torch.tensor(self.off_policy_log_probs)
            fields["off_policy_log_probs"] = log_probs
        return super().as_dict() | fields


@dataclass
class Drawn:
    """What the servers say of the tokens of a response, and how often they were asked."""

    log_probs: list[float]
    versions: list[int]
    extra: dict[str, Any] = field(default_factory=dict)
    requests: int = 0

    def add(self, output: Any) -> None:
        """Add the answer to a request."""
        fields = {key: value for key, value in output.extra_fields.items() if key not in ("prompt_ids", VERSIONS)}
        self.requests += 1
        self.log_probs += list(output.log_probs or [])
        # Without the key, all tokens are of one version.
        self.versions += output.extra_fields.get(VERSIONS) or [fields["max_global_steps"]] * len(output.token_ids)
        first = self.extra.get("min_global_steps", fields.get("min_global_steps"))
        self.extra = fields if first is None else fields | {"min_global_steps": first}


@cache
def toolbox_of(tools: str) -> Toolbox:
    """Return the tools of a run, whose processes end with the process of the agent loop."""
    return Toolbox(ToolSettings.model_validate_json(tools), workers=TOOL_WORKERS)


class OffPolicyAgentLoop(AgentLoopBase):
    """One turn, or several where there are tools; a sample may start with a part of the row's target, or repeat one."""

    tokenizer: Any  # verl declares the class that makes one

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.has_phi = "off_policy_log_probs" in of_run(self.config).fields()
        self.template = chat_template(self.config)
        self.seed = self.config.seed
        self.seeded = self.config.seeded_sampling
        self.response_length = self.rollout_config.response_length
        self.tools = tools_of(self.config)

    @property
    def toolbox(self) -> Toolbox:
        assert self.tools
        return toolbox_of(self.tools.model_dump_json())

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> OffPolicyOutput:
        """Generate one sample of one row of the targets; ``session_id`` is its number in the group.

        With asynchronous rollouts ``batch_number`` belongs to the batch which the row was drawn for, and stays what it
        was when the sample is drawn again after a resume.
        """
        start = start_of(row)
        row = with_target(row, start)
        prompt, prefix, mask = self._example(row, start)
        beginning = self._beginning(row, start, prefix) if start.shown else ""
        if start.shown:
            conversation = show_target(row["raw_prompt"], beginning, "beginning")
            prompt = encode_prompt(conversation, self.tokenizer, self.template)
            prefix, mask = [], []
        target = row.get(TARGET_ID, prompt_id(row)) if prefix and not start.tokens else ""
        metrics: dict[str, Any] = {"generate_sequences": 0.0, "tool_calls": 0.0, "num_preempted": -1}
        written = list(row["target"]) if start.ratio else []
        episode = Episode(
            Example(prompt, prefix, mask),
            written,
            row["raw_prompt"],
            self.tokenizer,
            self.template,
            limit=self.response_length,
            turns=self.tools.turns if self.tools else 1,
        )
        seed = stable_hash(self.seed, batch_number(row), prompt_id(row), int(row["session_id"]))
        drawn = Drawn([0.0] * len(prefix), [NO_VERSION] * len(prefix))
        drawn.requests = int(bool(row.get(PLAN)) and int(row["session_id"]) in row[PLAN].get("again", ()))
        request_id = uuid4().hex  # of the whole episode, which stays on one server with its cache
        # A whole target ends with its end-of-sequence token: there is nothing left to generate.
        while not start.tokens:
            if episode.is_open:
                if self.seeded:
                    of_turn = stable_hash(seed, episode.number) if episode.number else seed
                    sampling_params = sampling_params | {"seed": of_turn}
                with simple_timer("generate_sequences", metrics):
                    output = await self.server_manager.generate(
                        request_id=request_id,
                        prompt_ids=prompt + episode.response,
                        sampling_params=sampling_params | {"max_tokens": episode.room},
                    )
                episode.add_turn(output.token_ids)
                drawn.add(output)
            if not (calls := episode.calls()):
                break
            with simple_timer("tool_calls", metrics):
                made = await asyncio.to_thread(self.toolbox.run, calls, episode.history, self._context(row, seed))
            if not (tokens := episode.observe(made)):
                break
            drawn.log_probs += [0.0] * tokens
            drawn.versions += [NO_VERSION] * tokens
        if not drawn.extra:
            # The trainer reads the version of the weights that made a sample; a whole target counts as of this step.
            step = int(row["global_steps"]) - 1
            drawn.extra = {"min_global_steps": step, "max_global_steps": step}
        more: dict[str, Any] = {}
        if self.tools:
            more[EPISODE] = {**episode.record(), "tool_seconds": metrics["tool_calls"]}
            more[FINAL] = episode.final()
        return OffPolicyOutput(
            prompt_ids=prompt,
            response_ids=episode.response,
            response_mask=episode.mask,
            # Off-policy tokens have no probability under the rollout policy: 0 is never read for them.
            response_logprobs=drawn.log_probs,
            prefix_length=len(prefix),
            requests=drawn.requests,
            versions=drawn.versions,
            off_policy_log_probs=self._log_probs(row, start, mask),
            guided=bool(beginning),
            group_off_policy=any(one.ratio for one in planned(row)),
            num_turns=2 * (episode.number + 1),
            metrics=AgentLoopMetrics(**metrics),
            extra_fields=drawn.extra
            | {"turn_scores": [], "tool_rewards": [], TRUNCATED: self._truncated(episode)}
            | {PROBLEM: row["raw_prompt"][-1]["content"], TARGET: target}
            | more,
        )

    def _beginning(self, row: dict[str, Any], start: Start, prefix: list[int]) -> str:
        """Return the beginning of the target that the prompt of a sample shows."""
        if start.of_answer and prefix:
            return answer_prefix(row["target"][-1]["content"], start.ratio)
        return self.tokenizer.decode(prefix, skip_special_tokens=True)

    def _log_probs(self, row: dict[str, Any], start: Start, mask: Sequence[int]) -> list[float] | None:
        """Return the log-probabilities of a beginning, without observations, by what wrote it: teacher or policy."""
        if not self.has_phi:
            return None
        if start.tokens:
            return [value for value, counts in zip(start.log_probs, mask, strict=True) if counts]
        return list(row["target_log_probs"])[: sum(mask)] if mask else []

    def _truncated(self, episode: Episode) -> bool:
        """Return whether a response scores 0 because it was cut: at its limit without one of the model's end tokens."""
        if self.config.reward.truncated == "by_text":
            return False
        return bool(episode.ended) or (episode.room <= 0 and episode.response[-1] not in self.tokenizer.all_special_ids)

    def _context(self, row: dict[str, Any], seed: int) -> Context:
        """Return what the tools read of a row."""
        more = (row.get("extra_info") or {}).get("fields")
        return Context(row_fields(row["data_source"], row["raw_prompt"][-1]["content"], more), seed)

    def _example(self, row: dict[str, Any], start: Start) -> Example:
        """Return the tokens of the prompt and those that the sample starts with: none for an on-policy sample."""
        if not start.ratio:
            ids = encode_prompt(row["raw_prompt"], self.tokenizer, self.template)
            return Example(ids, list(start.tokens), list(start.mask))
        prompt, target, mask = encode_episode(row["raw_prompt"], row["target"], self.tokenizer, self.template)
        end = cut_prefix(mask, start.ratio, response_length=self.response_length)
        return Example(prompt, target[:end], mask[:end])
