"""The known causes, each a test of a run's record: what is wrong, the evidence, the key to change.

To add one, write its test and add its row to `CAUSES`: the command, the page, the UI and the check before a training
follow. The order is that of cause and effect, because a fault at the front has the symptoms of those behind it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training.explain.answers import cut, no_box, no_end_token, thoughts_twice
from training.explain.record import Evidence, RunRecord
from training.explain.rewards import alike, always_right, always_wrong, verifier_fails
from training.explain.updates import context, drift, learning_rate, order, stale, targets_not_learned

DOCS = "docs/explain.md"


@dataclass(frozen=True)
class Cause:
    """A row of `CAUSES`.

    Attributes:
        name: short, and the anchor of its section in docs/explain.md.
        title: A sentence that says what is wrong.
        keys: the settings to change.
        test: the evidence for it in a record; None if there is none.
        early: Whether prompts, targets and first samples show it before a training.
    """

    name: str
    title: str
    keys: str
    test: Callable[[RunRecord], Evidence | None]
    early: bool = False

    @property
    def link(self) -> str:
        """The section of the documentation."""
        return f"{DOCS}#{self.name}"


@dataclass(frozen=True)
class Finding:
    """A cause with the evidence for it."""

    cause: Cause
    evidence: Evidence


CAUSES: tuple[Cause, ...] = (
    Cause(
        "context",
        "The context is shorter than a prompt and its response",
        "model.rope_theta or model.rope_scaling with model.max_position_embeddings (docs/gpu.md), or a shorter "
        "data.max_response_length",
        context,
        early=True,
    ),
    Cause(
        "thoughts_twice",
        "The thoughts are opened twice",
        "the model's chat template (chat_template_kwargs), or the <think> at the start of the targets",
        thoughts_twice,
        early=True,
    ),
    Cause(
        "end_token",
        "Responses go on after their answer, because the end token is missing",
        "eos_token in the model's tokenizer_config.json, and eos_token_id in its generation_config.json",
        no_end_token,
        early=True,
    ),
    Cause(
        "cut",
        "Responses are cut at the limit",
        "data.max_response_length, or mixed.length_penalty",
        cut,
        early=True,
    ),
    Cause(
        "no_box",
        "Answers have no box",
        "targets.system_prompt (ask for \\boxed{}), or the verifier of the source (targets.source)",
        no_box,
        early=True,
    ),
    Cause(
        "verifier_errors",
        "The verifier fails",
        "the verifier of the source (targets.source), or reward.custom_reward_function",
        verifier_fails,
        early=True,
    ),
    Cause(
        "always_right",
        "The verifier finds every answer right",
        "the verifier of the source (targets.source), or reward.custom_reward_function",
        always_right,
        early=True,
    ),
    Cause(
        "always_wrong",
        "The verifier finds every answer wrong",
        "the verifier of the source (targets.source), or reward.custom_reward_function",
        always_wrong,
        early=True,
    ),
    Cause("order", "The prompts come in an order", "data.shuffle=true and data.order=shuffle", order),
    Cause(
        "alike",
        "The samples of a group are all alike, so nothing is learned from them",
        "actor_rollout_ref.rollout.temperature, targets.pass_rate (problems of another difficulty), or a recipe with "
        "off-policy samples",
        alike,
    ),
    Cause(
        "stale",
        "The samples are stale",
        "max_staleness, or mixed.rollout_correction.type=seq-mask-tis",
        stale,
    ),
    Cause(
        "drift",
        "vLLM samples from another policy than the one that is trained",
        "rollout_precision, actor_rollout_ref.model.override_config, or mixed.rollout_correction.type",
        drift,
    ),
    Cause(
        "learning_rate",
        "The learning rate is too high",
        "actor_rollout_ref.actor.optim.lr",
        learning_rate,
    ),
    Cause(
        "targets_not_learned",
        "The targets are not learned",
        "actor_rollout_ref.actor.optim.lr, or mixed.off_policy_reshape_gamma",
        targets_not_learned,
    ),
)


def explain(record: RunRecord, causes: Sequence[Cause] = CAUSES) -> list[Finding]:
    """Return the causes for which ``record`` has evidence; the first one explains most."""
    tested = ((cause, cause.test(record)) for cause in causes)
    return [Finding(cause, evidence) for cause, evidence in tested if evidence is not None]


def early_causes() -> list[Cause]:
    """Return those of `CAUSES` that can be seen before a training."""
    return [cause for cause in CAUSES if cause.early]
