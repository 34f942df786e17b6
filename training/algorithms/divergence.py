"""The divergence of the policy from a teacher over the vocabulary: the teacher's likeliest tokens, and a tail.

The score of the sampled token estimates a divergence by one token. Here it is computed from the tokens that a teacher
behind a server can score.
"""

import math
from typing import Annotated, ClassVar

from jaxtyping import Float, Int
from pydantic import Field

from training.algorithms.options import Share
from training.algorithms.tensors import working_precision
from training.algorithms.term import LossInputs, LossOutputs, Term
from training.later import Tensor, torch

LEAST_TAIL = 1e-7  # probability of all other tokens, where rounding leaves less
NONE = -100.0  # log-probability of a token that a model does not have


class Divergence(Term):
    """The distance of the policy from a teacher at each token that the policy samples, by `divergence`.

    ============ ================== ===========================
    published    ``a``              tokens
    ============ ================== ===========================
    OPSD         0.5                50 of the teacher, or all    arXiv 2601.18734
    SDPO         0.5, 1: feedback   100 of the policy            arXiv 2601.20802
    GKD          0 to 1             all                          arXiv 2306.13649
    ============ ================== ===========================
    """

    name: ClassVar[str] = "divergence"
    stream: ClassVar[str] = "policy"
    reads_logits: ClassVar[bool] = True

    a: Share = 0.5  # 0.5: Jensen-Shannon, 0: forward KL, 1: reverse KL
    k: Annotated[int, Field(ge=1)] = 64  # the likeliest tokens of the teacher

    def on_logits(
        self,
        logits: Float[Tensor, "tokens vocabulary"],
        ids: Int[Tensor, "tokens k"],
        log_probs: Float[Tensor, "tokens k"],
    ) -> Float[Tensor, " tokens"]:
        """Return the divergence at each token; 0 where the teacher said nothing.

        A token that the teacher has and the policy has not, as in a larger vocabulary, is one of the others.
        """
        # Its gradient needs the result alone: verl's cross-entropy overwrites the logits with their gradient.
        policy = torch.log_softmax(working_precision(logits), dim=-1)
        last = logits.shape[-1] - 1
        both = (ids <= last) & (log_probs > NONE)  # not where it is NaN
        log_prob = torch.where(both, policy.gather(-1, ids.clamp(max=last)), NONE)
        teacher_log_prob = torch.where(both, log_probs, NONE)
        return divergence(log_prob, teacher_log_prob, self.a)

    def losses(self, x: LossInputs) -> LossOutputs:
        return LossOutputs(torch.where(x.valid & ~x.off_policy, x.from_logits[self.name], 0.0))


def divergence(
    log_prob: Float[Tensor, "*tokens k"], teacher_log_prob: Float[Tensor, "*tokens k"], a: float
) -> Float[Tensor, "*tokens"]:
    """Return ``(1 - a) KL(p || m) + a KL(q || m)`` with ``m = (1 - a) p + a q``, for the policy p and a teacher q.

    With 0.5 it is the Jensen-Shannon divergence; 0 stands for ``KL(q || p)``, the forward KL, and 1 for ``KL(p || q)``,
    the reverse KL (arXiv 2306.13649; generalized_jsd_loss in huggingface/trl, trl/experimental/gkd/gkd_trainer.py).
    Each has ``k`` tokens, and a tail that stands for all others with the rest of the probability
    (compute_self_distillation_loss in lasgroup/SDPO, core_algos.py). Without a tail the sum can be negative: below it
    is -0.046597 for an ``a`` of 0, which verl's ``forward_kl_topk`` takes for 0.

    >>> policy, teacher = torch.tensor([0.7, 0.2]).log(), torch.tensor([0.5, 0.3]).log()
    >>> [round(divergence(policy, teacher, a).item(), 6) for a in (0.5, 1.0, 0.0)]
    [0.021901, 0.085123, 0.092033]

    Args:
        log_prob: of the policy, for the same tokens as the teacher's.
        teacher_log_prob: of the teacher's likeliest tokens.
        a: from 0 to 1.
    """
    policy = with_tail(log_prob)
    teacher = with_tail(teacher_log_prob)
    if a == 0:
        return kl(teacher, policy)
    if a == 1:
        return kl(policy, teacher)
    mixture = torch.logaddexp(policy + math.log(1.0 - a), teacher + math.log(a))
    return (1.0 - a) * kl(policy, mixture) + a * kl(teacher, mixture)


def kl(log_p: Float[Tensor, "*tokens k"], log_q: Float[Tensor, "*tokens k"]) -> Float[Tensor, "*tokens"]:
    """Return the sum of ``p (log p - log q)``, in nats.

    >>> kl(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.75, 0.25]).log())
    tensor(0.1438)
    """
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1)


def with_tail(log_probs: Float[Tensor, "*tokens k"]) -> Float[Tensor, "*tokens k+1"]:
    """Return log-probabilities with one more for all other tokens: ``log(1 - sum)``.

    >>> with_tail(torch.tensor([[0.5, 0.3]]).log()).exp()
    tensor([[0.5000, 0.3000, 0.2000]])
    """
    rest = 1.0 - log_probs.exp().sum(dim=-1, keepdim=True)
    return torch.cat([log_probs, rest.clamp(min=LEAST_TAIL).log()], dim=-1)
