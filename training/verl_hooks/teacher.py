"""The teacher that scores the tokens of a sample when it is drawn, with ``method.teacher``."""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol
from uuid import uuid4

import openai
import ray
import torch
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from core.model.endpoints import endpoint_key
from core.model.prompts import encode_prompt
from training.algorithms.prefix import THOUGHTS_END
from training.config.teacher_settings import SELF, endpoint_of, show_target, top_tokens
from training.config.to_verl import chat_template
from training.verl_hooks.agent_loop import OffPolicyOutput
from training.verl_hooks.reward import is_solved, reward_info

# vLLM is asked for log-probabilities at each token of the prompt, and for a token that nobody reads.
SCORE = {"max_tokens": 1, "temperature": 1.0, "detokenize": False}
CONCURRENCY, RETRIES, TIMEOUT_S = 32, 5, 600


Scores = tuple[list[list[int]], list[list[float]]]
"""Ids and log-probabilities of the ``top`` likeliest tokens at each token, or with 0 of the token itself."""


class Teacher(Protocol):
    """Scores the tokens of a response."""

    async def scores(self, prompt: list[int], response: list[int], top: int) -> Scores:
        """Return the scores at each token of ``response`` after ``prompt``.

        Args:
            top: how many of its likeliest tokens it scores; 0: the token of the response.
        """
        ...


class ServedTeacher:
    """A model that verl serves with the policy."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def scores(self, prompt: list[int], response: list[int], top: int) -> Scores:
        output = await self.client.generate(
            request_id=uuid4().hex,
            prompt_ids=prompt + response,
            sampling_params={**SCORE, "prompt_logprobs": top},
        )
        said = output.extra_fields
        ids, log_probs = (of_response(said[name], prompt, response) for name in ("prompt_ids", "prompt_logprobs"))
        return ids, log_probs


class PolicyTeacher(ServedTeacher):
    """The policy as it is at the moment."""


class EndpointTeacher:
    """A model behind an OpenAI-compatible endpoint that returns prompt_logprobs, as vLLM's server does."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.client = openai.AsyncOpenAI(base_url=url, api_key=endpoint_key(), max_retries=RETRIES, timeout=TIMEOUT_S)
        self.slots = asyncio.Semaphore(CONCURRENCY)

    async def scores(self, prompt: list[int], response: list[int], top: int) -> Scores:
        async with self.slots:
            answer = await self.client.completions.create(
                model=self.name,
                prompt=prompt + response,
                max_tokens=1,
                temperature=1.0,
                extra_body={"prompt_logprobs": top},
            )
        entries = answer.choices[0].prompt_logprobs[len(prompt) :]  # pyright: ignore[reportAttributeAccessIssue]  vLLM's
        ids, log_probs = list[list[int]](), list[list[float]]()
        for token, entry in zip(response, entries, strict=True):
            # A token that is not among the likeliest stands there, too.
            names = sorted(entry, key=lambda name: entry[name]["rank"])[:top] if top else [str(token)]
            ids.append([int(name) for name in names])
            log_probs.append([entry[name]["logprob"] for name in names])
        return ids, log_probs


def shown_text(part: str, row: Mapping[str, Any]) -> str:
    """Return what the prompt of a teacher shows of a row: "" without the part."""
    if part == "answer":
        return str(row["reward_model"]["ground_truth"])
    target = row.get("target")
    shown = target if part == "target" and target is not None else ()
    return "\n".join(message["content"] for message in shown)


def of_response(scores: list[Any], prompt: list[int], response: list[int]) -> list[Any]:
    """The scores of ``response``, where verl has a token's at the place of the token before it.

    >>> of_response([-0.1, -0.2, -0.3, 0.0], [5, 6], [7, 8])
    [-0.2, -0.3]
    """
    return scores[len(prompt) - 1 : len(prompt) - 1 + len(response)]


class _TeacherLoopWorker(AgentLoopWorkerTQ.__ray_metadata__.modified_class):  # pyright: ignore[reportAttributeAccessIssue]  Ray's
    """verl's worker; the teacher scores what the policy wrote, and its prompt may show the target."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sees = self.config.method.teacher.sees
        self.top = top_tokens(self.config)
        self.template = chat_template(self.config)
        model = self.config.method.teacher.model
        # Of each prompt its samples by number, "" for wrong ones, and how many have read them.
        self.groups: dict[str, dict[int, str]] = {}
        self.readers = Counter[str]()
        self.drawing: set[Any] = set()  # the tasks of samples that the policy has not finished
        self.drawn = asyncio.Event()  # whether there are none
        if model == SELF:
            self.teacher: Teacher = PolicyTeacher(self.llm_client)
        elif endpoint := endpoint_of(model):
            self.teacher = EndpointTeacher(*endpoint)
        else:
            self.teacher = ServedTeacher(*self.teacher_server_manager.teacher_client.values())

    async def _run_agent_loop(self, *args: Any, **kwargs: Any) -> Any:
        self.drawn.clear()
        self.drawing.add(asyncio.current_task())
        try:
            return await super()._run_agent_loop(*args, **kwargs)
        finally:
            self._end_draw()

    def _end_draw(self) -> None:
        """The sample of this task is drawn."""
        self.drawing.discard(asyncio.current_task())
        if not self.drawing:
            self.drawn.set()

    async def _compute_teacher_logprobs(
        self,
        output: OffPolicyOutput,
        prompt_ids: list[int],
        response_ids: list[int],
        validate: bool,
        sample_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self._end_draw()
        if validate:
            return
        if not any(output.response_mask[output.prefix_length :]):  # the policy wrote nothing
            self._note(output, 0.0)
            return
        assert sample_kwargs is not None
        text = shown_text(self.sees, sample_kwargs)
        if self.sees == "sample":
            text = await self._right_sample(output, response_ids, sample_kwargs)
            if not text:
                self._note(output, math.nan)
                return
        if text:
            conversation = show_target(sample_kwargs["raw_prompt"], text, self.sees)
            prompt_ids = encode_prompt(conversation, self.tokenizer, self.template)
        if isinstance(self.teacher, PolicyTeacher):
            # Between them, scores would change which samples the server batches, and so their rounding: a resumed run
            # would draw other samples.
            await self.drawn.wait()
        self._note(output, await self.teacher.scores(prompt_ids, response_ids, self.top))

    def _note(self, output: OffPolicyOutput, scores: Scores | float) -> None:
        """Give a sample its scores, or one number in the place of each.

        What it says of a token for a divergence is the probability of all that are scored there.
        """
        if not isinstance(scores, tuple):
            tokens, width = len(output.response_mask), max(self.top, 1)
            scores = [[0] * width] * tokens, [[scores] * width] * tokens
        ids, log_probs = scores
        if not self.top:
            output.teacher_log_probs = [log_prob for (log_prob,) in log_probs]
            return
        output.top_ids = torch.tensor(ids, dtype=torch.int32)
        output.top_log_probs = torch.tensor(log_probs)
        output.teacher_mass = output.top_log_probs.exp().sum(-1)

    async def _right_sample(self, output: OffPolicyOutput, response_ids: list[int], row: dict[str, Any]) -> str:
        """Return the answer of the first other sample of the group that is right, without its thoughts."""
        group, own = self.groups.setdefault(row["uid"], {}), int(row["session_id"])
        solved = is_solved(reward_info(output.extra_fields), output.reward_score or 0.0)
        text = self.tokenizer.decode(response_ids, skip_special_tokens=True).rpartition(THOUGHTS_END)[2]
        group[own] = text.strip() if solved else ""
        await self.drawn.wait()  # all samples are graded before they are scored
        others = [group[number] for number in sorted(group) if number != own]
        self.readers[row["uid"]] += 1
        if self.readers[row["uid"]] == len(group):
            del self.groups[row["uid"]], self.readers[row["uid"]]
        return next(filter(None, others), "")


TeacherLoopWorker = ray.remote(_TeacherLoopWorker)


class TeacherLoopManager(AgentLoopManagerTQ):
    """verl's manager of agent loops, with workers that ask the teacher."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = TeacherLoopWorker
