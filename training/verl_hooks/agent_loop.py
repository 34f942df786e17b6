"""Mixed-policy rollouts: some samples of a group start with part of the target, or are all of it."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.utils.profiler import simple_timer

from core.model.episodes import Example, encode_episode
from core.model.prompts import encode_prompt
from grading.row_fields import PROBLEM
from training.algorithms.derived_seeds import prompt_id, stable_hash
from training.algorithms.prefix import answer_prefix, cut_prefix
from training.config.method_keys import of_run
from training.config.teacher_settings import show_target
from training.config.to_verl import chat_template
from training.methods.given import Start
from training.verl_hooks.asynchronous.vllm_client import VERSIONS
from training.verl_hooks.batch import PLAN, TARGET
from training.verl_hooks.reward import TRUNCATED

NO_VERSION = -1


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


class OffPolicyOutput(AgentLoopOutput):
    """A sample with ``prefix_length`` off-policy tokens at the start of its response; it cost ``requests`` generations.

    ``versions`` has for each response token the version of the weights that sampled it: the number of updates they had
    seen, and `NO_VERSION` for off-policy tokens. ``off_policy_log_probs`` are the teacher's, one for each off-policy
    token that counts; None where the method does not read them. ``guided``: its prompt shows a part of the target.
    ``group_off_policy``: some samples of its group start with a part of the target, or their prompts show one.
    ``teacher_log_probs`` are a teacher's for each token of the response; None without a teacher.
    """

    prefix_length: int
    requests: int
    versions: list[int]
    off_policy_log_probs: list[float] | None = None
    guided: bool = False
    group_off_policy: bool = False
    teacher_log_probs: list[float] | None = None

    def as_dict(self) -> dict[str, Any]:
        # As tensors they become fields of the batch; verl would carry plain ints beside it.
        fields = {"prefix_length": torch.tensor(self.prefix_length), "requests": torch.tensor(self.requests)}
        fields["rollout_versions"] = torch.tensor(self.versions)
        fields["guided"] = torch.tensor(int(self.guided))
        fields["group_off_policy"] = torch.tensor(int(self.group_off_policy))
        if self.teacher_log_probs is not None:
            fields["teacher_log_probs"] = torch.tensor(self.teacher_log_probs)
        if self.off_policy_log_probs is not None:
            log_probs, mask = (
                torch.zeros(len(self.response_ids)),
                torch.tensor(self.response_mask[: self.prefix_length]),
            )
            log_probs[: self.prefix_length][mask > 0] = torch.tensor(self.off_policy_log_probs)
            fields["off_policy_log_probs"] = log_probs
        return super().as_dict() | fields


class OffPolicyAgentLoop(AgentLoopBase):
    """One turn; a sample may start with a part of the row's target, or repeat an earlier response."""

    tokenizer: Any  # verl declares the class that makes one

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.has_phi = "off_policy_log_probs" in of_run(self.config).fields()
        self.template = chat_template(self.config)
        self.seed = self.config.seed
        self.seeded = self.config.seeded_sampling
        self.response_length = self.rollout_config.response_length

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> OffPolicyOutput:
        """Generate one sample of one row of the targets; ``session_id`` is its number in the group.

        With asynchronous rollouts ``batch_number`` belongs to the batch which the row was drawn for, and stays what it
        was when the sample is drawn again after a resume.
        """
        start = start_of(row)
        prompt, prefix, mask = self._example(row, start)
        beginning = self._beginning(row, start, prefix) if start.shown else ""
        if start.shown:
            conversation = show_target(row["raw_prompt"], beginning, "beginning")
            prompt, prefix, mask = encode_prompt(conversation, self.tokenizer, self.template), [], []
        target = prompt_id(row) if prefix and not start.tokens else ""
        metrics: dict[str, Any] = {"generate_sequences": 0.0, "num_preempted": -1}
        response, log_probs, extra = prefix, [0.0] * len(prefix), {}
        requests = int(bool(row.get(PLAN)) and int(row["session_id"]) in row[PLAN].get("again", ()))
        versions = [NO_VERSION] * len(prefix)
        # A whole target ends with its end-of-sequence token: there is nothing left to generate.
        if not start.tokens and prefix[-1:] != [self.tokenizer.eos_token_id]:
            if self.seeded:
                seed = stable_hash(self.seed, batch_number(row), prompt_id(row), int(row["session_id"]))
                sampling_params = sampling_params | {"seed": seed}
            requests += 1
            with simple_timer("generate_sequences", metrics):
                output = await self.server_manager.generate(
                    request_id=uuid4().hex,
                    prompt_ids=prompt + prefix,
                    sampling_params=sampling_params | {"max_tokens": self.response_length - len(prefix)},
                )
            response = prefix + list(output.token_ids)
            log_probs += list(output.log_probs or [])
            extra = {key: value for key, value in output.extra_fields.items() if key not in ("prompt_ids", VERSIONS)}
            # Without the key, all tokens are of one version.
            versions += output.extra_fields.get(VERSIONS) or [extra["max_global_steps"]] * len(output.token_ids)
        else:
            # The trainer reads the version of the weights that made a sample; a whole target counts as of this step.
            step = int(row["global_steps"]) - 1
            extra = {"min_global_steps": step, "max_global_steps": step}
        return OffPolicyOutput(
            prompt_ids=prompt,
            response_ids=response,
            response_mask=[*mask, *[1] * (len(response) - len(prefix))],
            # Off-policy tokens have no probability under the rollout policy: 0 is never read for them.
            response_logprobs=log_probs,
            prefix_length=len(prefix),
            requests=requests,
            versions=versions,
            off_policy_log_probs=self._log_probs(row, start, mask),
            guided=bool(beginning),
            group_off_policy=any(one.ratio for one in planned(row)),
            num_turns=2,
            metrics=AgentLoopMetrics(**metrics),
            extra_fields=extra
            | {"turn_scores": [], "tool_rewards": [], TRUNCATED: self._truncated(response)}
            | {PROBLEM: row["raw_prompt"][-1]["content"], TARGET: target},
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

    def _truncated(self, response: list[int]) -> bool:
        """Return whether a response scores 0 because it filled its limit without one of the model's end tokens."""
        if self.config.reward.truncated == "by_text":
            return False
        return len(response) >= self.response_length and response[-1] not in self.tokenizer.all_special_ids

    def _example(self, row: dict[str, Any], start: Start) -> Example:
        """Return the tokens of the prompt and those that the sample starts with: none for an on-policy sample."""
        if not start.ratio:
            ids = encode_prompt(row["raw_prompt"], self.tokenizer, self.template)
            return Example(ids, list(start.tokens), list(start.mask))
        prompt, target, mask = encode_episode(row["raw_prompt"], row["target"], self.tokenizer, self.template)
        end = cut_prefix(mask, start.ratio, response_length=self.response_length)
        return Example(prompt, target[:end], mask[:end])
