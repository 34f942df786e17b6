"""On-policy distillation: the policy samples, and a teacher scores its tokens (arXiv 2306.13649).

The teacher may be another model (OPD), or the policy itself with the target (OPSD, arXiv 2601.18734), the answer
(RLSD) or another sample (SDPO, arXiv 2601.20802) in its prompt.
"""

from typing import Annotated, Literal, Self

from jaxtyping import Bool, Float
from pydantic import Field, model_validator

from training.algorithms.off_policy import bounded_exp
from training.algorithms.options import Options, Positive, contradiction
from training.later import Tensor, torch


class Teacher(Options):
    """Who scores the policy's own tokens, and how the scores are used; docs/training.md has the choices."""

    # A model folder, a hub id[@revision], MODEL@URL of an endpoint that returns prompt_logprobs, base, or self.
    model: str | None = None
    gpus: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"  # of each node, in addition to trainer.n_gpus_per_node
    gpu_memory_utilization: Annotated[float, Field(gt=0.0, le=1.0)] = 0.6  # for its weights and its cache
    coef: Positive = 1.0  # coefficient of log q - log p in the advantage of a token
    max_advantage: Positive | None = None  # bound of abs(log q - log p)
    scale: Positive = 1.0  # of the teacher's distance from the reference policy: `extrapolated`
    task_rewards: bool = True  # whether on-policy samples have the group's advantage, too
    # What its prompt shows: of the row, or the first right sample of the group but the one that it scores.
    sees: Literal["nothing", "target", "answer", "sample"] = "nothing"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model == "self" and self.sees == "nothing":
            why = "the policy agrees with itself on every token"
            raise contradiction("teacher.model", "self", "teacher.sees", "nothing", why)
        return self

    def check(self, rollouts: str, temperature: float) -> None:
        """Raise InputError if samples that are drawn like this cannot be scored."""
        if self.model == "self" and rollouts != "sync":
            why = "the weights can change between a sample and its score"
            raise contradiction("method.teacher.model", "self", "rollouts.type", rollouts, why)
        if self.sees == "sample" and rollouts != "sync":
            why = "it waits until all samples of a step are drawn"
            raise contradiction("method.teacher.sees", "sample", "rollouts.type", rollouts, why)
        if temperature != 1:
            why = "a teacher's probabilities are those at temperature 1"
            raise contradiction("method.teacher", "set", "actor_rollout_ref.rollout.temperature", temperature, why)


def teacher_advantage(
    log_prob: Float[Tensor, "batch length"],
    teacher_log_prob: Float[Tensor, "batch length"],
    scored: Bool[Tensor, "batch length"],
    options: Teacher,
) -> Float[Tensor, "batch length"]:
    """Return ``coef (log q - log p)`` at the ``scored`` tokens and 0 elsewhere, for policy ``p`` and teacher ``q``.

    Its mean over the policy's own samples is ``-coef KL(policy || teacher)``, token by token, so the policy gradient
    with it as the advantage lowers the reverse KL (https://thinkingmachines.ai/blog/on-policy-distillation). No token
    answers for those after it. ``max_advantage`` bounds ``|log q - log p|``.

    >>> log_prob, teacher = torch.tensor([[0.5, 0.8, 0.9]]).log(), torch.tensor([[0.5, 0.2, 0.1]]).log()
    >>> scored = torch.tensor([[True, True, False]])
    >>> teacher_advantage(log_prob, teacher, scored, Teacher())
    tensor([[ 0.0000, -1.3863,  0.0000]])
    >>> teacher_advantage(log_prob, teacher, scored, Teacher(coef=0.5, max_advantage=1.0))
    tensor([[ 0.0000, -0.5000,  0.0000]])

    Args:
        log_prob: Log-probabilities of the policy at the start of the step.
        scored: the tokens that the policy sampled.
    """
    difference = torch.where(scored, teacher_log_prob - log_prob, 0.0)
    if options.max_advantage is not None:
        difference = difference.clamp(-options.max_advantage, options.max_advantage)
    return options.coef * difference


def extrapolated(
    teacher_log_prob: Float[Tensor, "batch length"], reference_log_prob: Float[Tensor, "batch length"], scale: float
) -> Float[Tensor, "batch length"]:
    """Return ``s log q + (1 - s) log b``: a teacher that is further away from the reference policy ``b`` than it is.

    With ``s = 1.25`` it is ExOPD (arXiv 2602.12125), and with 1 OPD.

    >>> teacher, reference, log_prob = (torch.tensor([[value]]) for value in (-0.5, -1.2, -1.0))
    >>> [round((extrapolated(teacher, reference, scale) - log_prob).item(), 6) for scale in (1.25, 1.0)]
    [0.675, 0.5]
    """
    return scale * teacher_log_prob + (1.0 - scale) * reference_log_prob


class Scale(Options):
    """How far a teacher scales the advantages of a token, and for how long; `scaled_advantage` has the formula."""

    epsilon: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2  # the factor is between 1 - epsilon and 1 + epsilon
    coef: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5  # share of the scaled advantage at first
    steps: Annotated[int, Field(ge=1)] = 50  # after which it is 0


def scaled_advantage(
    advantages: Float[Tensor, "batch length"],
    log_prob: Float[Tensor, "batch length"],
    teacher_log_prob: Float[Tensor, "batch length"],
    options: Scale,
    step: int,
) -> Float[Tensor, "batch length"]:
    """Return ``(1 - l) A + l A w``: a token that a teacher finds likelier has more of a reward and less of a penalty.

    ``w = clamp(exp(sign(A) (log q - log p0)), 1 - epsilon, 1 + epsilon)`` and ``l = coef max(0, 1 - step / steps)``, as
    in RLSD (arXiv 2604.03128) by its implementation in lauyikfung/SDPG.

    >>> log_prob, teacher = torch.zeros(1, 2), torch.tensor([[0.1, -0.5]])
    >>> scaled_advantage(torch.ones(1, 2), log_prob, teacher, Scale(), step=0)
    tensor([[1.0526, 0.9000]])
    >>> scaled_advantage(-torch.ones(1, 2), log_prob, teacher, Scale(), step=0)
    tensor([[-0.9524, -1.1000]])
    >>> scaled_advantage(torch.ones(1, 2), log_prob, teacher, Scale(), step=25)
    tensor([[1.0263, 0.9500]])

    Args:
        log_prob: Log-probabilities of the policy at the start of the step.
        step: counted from 0.
    """
    share = options.coef * max(0.0, 1.0 - step / options.steps)
    difference = advantages.sign() * (teacher_log_prob - log_prob)
    weight = bounded_exp(difference).clamp(1.0 - options.epsilon, 1.0 + options.epsilon)
    return advantages * (1.0 - share + share * weight)
