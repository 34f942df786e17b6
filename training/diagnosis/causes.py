"""The table of known causes, and the question which of them a run has.

To add one, write its test and add its row: the commands, the page, the UI and the warnings follow. Rows stand in the
order of cause and effect, because a fault at the front has the symptoms of those behind it.
"""

from dataclasses import dataclass

from training.diagnosis import AFTER, BEFORE, FIRST, LIVE, Cause
from training.diagnosis.answers import cut, mostly_cut, no_box, no_end_token, thoughts_twice
from training.diagnosis.machine import CHECKS
from training.diagnosis.record import Evidence, RunRecord
from training.diagnosis.rewards import alike, always_right, always_wrong, collapse, no_signal, verifier_fails
from training.diagnosis.updates import (
    barely_moved,
    context,
    drift,
    entropy_explodes,
    learning_rate,
    loss_stays,
    order,
    stale,
    stalled,
    targets_not_learned,
    too_few_steps,
)

LR = "actor_rollout_ref.actor.optim.lr"
REWARD_OF = "the verifier of the source (targets.source), or reward.custom_reward_function"
LIMIT = "data.max_response_length, or method.length_penalty"
EARLY = BEFORE, FIRST, AFTER


def first_stage(record: RunRecord) -> Evidence | None:
    """The run from whose policy this one started has a cause of its own."""
    if record.learns or record.first_stage is None or not (found := explain(record.first_stage)):
        return None
    return Evidence(f"of the first stage: {found[0].line()}", found[0].evidence.samples)


CAUSES: tuple[Cause, ...] = (
    *CHECKS,
    Cause(
        "first_stage",
        (AFTER,),
        first_stage,
        "first_stage.set, or a recipe without a first stage",
        "The first stage, from which the run starts, has a fault of its own",
    ),
    Cause(
        "context",
        EARLY,
        context,
        "model.rope_theta or model.rope_scaling with model.max_position_embeddings (docs/gpu.md), or a shorter "
        "data.max_response_length",
        "The context is shorter than a prompt and its response",
    ),
    Cause(
        "thoughts_twice",
        EARLY,
        thoughts_twice,
        "the model's chat template (data.chat_template_kwargs), or the <think> at the start of the targets",
        "The thoughts are opened twice",
    ),
    Cause(
        "end_token",
        EARLY,
        no_end_token,
        "eos_token in the model's tokenizer_config.json, and eos_token_id in its generation_config.json",
        "Responses go on after their answer, because the end token is missing",
    ),
    Cause(
        "cut",
        EARLY,
        cut,
        LIMIT,
        "Responses are cut at the limit",
    ),
    Cause(
        "no_box",
        EARLY,
        no_box,
        "targets.system_prompt (ask for \\boxed{}), or the verifier of the source (targets.source)",
        "Answers have no box",
    ),
    Cause("verifier_errors", EARLY, verifier_fails, REWARD_OF, "The verifier fails"),
    Cause("always_right", EARLY, always_right, REWARD_OF, "The verifier finds every answer right"),
    Cause("always_wrong", EARLY, always_wrong, REWARD_OF, "The verifier finds every answer wrong"),
    Cause("order", (AFTER,), order, "data.shuffle=true and data.order=shuffle", "The prompts come in an order"),
    Cause(
        "alike",
        (AFTER,),
        alike,
        "actor_rollout_ref.rollout.temperature, targets.pass_rate (problems of another difficulty), or a recipe with "
        "off-policy samples",
        "The samples of a group are all alike, so nothing is learned from them",
    ),
    Cause(
        "no_signal",
        (FIRST, LIVE, AFTER),
        no_signal,
        "the recipe: imitate first, with sft or sft_rl (training.recipe), or take easier problems (targets.pass_rate)",
        "The model cannot do this yet: none of its own answers is right",
    ),
    Cause(
        "stale",
        (BEFORE, AFTER),
        stale,
        "rollouts.max_staleness, or method.correction.type=seq-mask-tis (docs/results/drift.md)",
        "The samples are stale",
    ),
    Cause(
        "drift",
        (AFTER,),
        drift,
        "rollout.precision, actor_rollout_ref.model.override_config, or method.correction.type",
        "vLLM samples from another policy than the one that is trained",
    ),
    Cause("learning_rate", (AFTER,), learning_rate, LR, "The learning rate is too high"),
    Cause(
        "targets_not_learned",
        (AFTER,),
        targets_not_learned,
        f"{LR}, or method.off_policy.reshape.gamma",
        "The targets are not learned",
    ),
    Cause("loss_stays", (AFTER,), loss_stays, LR, "The supervised loss does not fall"),
    Cause("barely_moved", (AFTER,), barely_moved, f"{LR}, or trainer.total_epochs", "The policy barely moved"),
    Cause(
        "collapse",
        (LIVE, AFTER),
        collapse,
        f"a lower {LR}, or policy.source=best with trainer.test_freq",
        "The reward collapses",
    ),
    Cause("mostly_cut", (LIVE,), mostly_cut, LIMIT, "Most samples are cut at the limit"),
    Cause("entropy", (LIVE,), entropy_explodes, f"a lower {LR}, or imitate first", "The answers become random"),
    Cause("stalled", (LIVE,), stalled, f"{LR}, or stop the run", "The targets are learned no further"),
    Cause(
        "too_few_steps",
        (AFTER,),
        too_few_steps,
        "trainer.total_epochs or trainer.total_training_steps",
        "The run is too short to tell",
    ),
)


@dataclass(frozen=True)
class Finding:
    """A cause with the evidence for it."""

    cause: Cause
    evidence: Evidence

    def line(self) -> str:
        """Return all of it in one line."""
        return f"{self.cause.title}: {self.evidence.text}. Change {self.cause.keys}; see {self.cause.link}"


def seen(*when: str) -> list[Cause]:
    """Return the causes that can be seen at one of these moments."""
    return [cause for cause in CAUSES if set(when) & set(cause.when)]


def explain(record: RunRecord, *when: str) -> list[Finding]:
    """Return the causes for which ``record`` has evidence at a moment, `AFTER` by default; the first explains most."""
    tested = ((cause, cause.test(record)) for cause in seen(*(when or (AFTER,))))
    return [Finding(cause, evidence) for cause, evidence in tested if evidence is not None]
