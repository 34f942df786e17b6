"""What the published implementations compute, written out, on a batch of a bigram model.

It is the other side of `test_published_recipes`. A published rank cuts its rows into micro-batches. Each of them adds
``sum(L) / limit`` to the loss, or the mean where a method has one; entropies, divergences and supervised losses are
means of each micro-batch. The gradients of the ranks are averaged.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

LIMIT, VOCABULARY = 24, 12
C = 0.001  # the weight of the entropy, where a method has it


@dataclass
class Batch:
    """Prompts with eight samples each, of which the first ``prefix`` tokens are off-policy."""

    tokens: Tensor  # [rows, LIMIT + 1], the first one is the prompt
    lengths: Tensor
    prefix: Tensor
    solved: Tensor
    group: Tensor
    old: Tensor  # log-probabilities when the step began
    stored: Tensor  # those of the off-policy tokens when they were written
    reference: Tensor
    table: Tensor = field(default_factory=lambda: torch.zeros(0))  # of the bigram model: the parameters

    @cached_property
    def mask(self) -> Tensor:
        return torch.arange(LIMIT) < self.lengths.unsqueeze(-1)

    @cached_property
    def off_policy(self) -> Tensor:
        return torch.arange(LIMIT) < self.prefix.unsqueeze(-1)

    @cached_property
    def own(self) -> Tensor:
        return self.mask & ~self.off_policy

    def predict(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies of ``rows`` under the current parameters."""
        logits = self.table[self.tokens[rows, :-1]].log_softmax(-1)
        chosen = logits.gather(-1, self.tokens[rows, 1:].unsqueeze(-1)).squeeze(-1)
        return chosen, -(logits.exp() * logits).sum(-1)


def batch(prefixes: list[int], replayed: bool = False, sizes: tuple[int, int] = (4, 8), equal: int = 0) -> Batch:
    """``sizes``: prompts, and samples of each. ``equal``: tokens of every response; 0: various numbers."""
    draw = torch.Generator().manual_seed(7)
    prompts, samples = sizes
    rows = prompts * samples
    lengths = torch.full((rows,), equal) if equal else torch.randint(3, LIMIT + 1, (rows,), generator=draw)
    prefix = torch.tensor(prefixes).repeat(prompts)
    prefix = torch.where(prefix < 0, lengths, prefix.minimum(lengths - 1))
    solved = torch.rand(rows, generator=draw) < 0.4
    solved = torch.where(prefix == lengths, True, solved)
    group = torch.arange(prompts).repeat_interleave(samples)
    solved[(group % 2 == 1) & (prefix < lengths)] = False  # every second prompt is never solved
    made = Batch(
        torch.randint(0, VOCABULARY, (rows, LIMIT + 1), generator=draw),
        lengths,
        prefix,
        solved,
        group,
        *(torch.empty(0),) * 3,
    )
    made.table = torch.randn(VOCABULARY, VOCABULARY, generator=draw, dtype=torch.float64)
    log_prob, _ = made.predict(torch.arange(rows))

    def moved(scale: float) -> Tensor:
        return (log_prob + scale * torch.randn(log_prob.shape, generator=draw, dtype=torch.float64)).clamp(max=0.0)

    made.old, made.stored, made.reference = moved(0.3), moved(0.5).clamp(min=-4.0), moved(0.2)
    made.old[:, ::7] -= 2.0  # ratios beyond every clip
    made.table.requires_grad_()
    return made


def advantages(made: Batch, scores: Tensor, of: Tensor, deviation: bool) -> Tensor:
    """``score - mean`` over the rows ``of`` its group, divided by their deviation + 1e-6."""
    result = torch.zeros_like(scores)
    for name in made.group.unique():
        rows = made.group == name
        counted = scores[rows & of]
        centred = scores[rows] - counted.mean()
        spread = counted.std() if deviation and counted.std() > 0 else torch.tensor(1.0)
        result[rows] = centred / (spread + 1e-6) if deviation else centred
    return result.unsqueeze(-1)


def mean(values: Tensor, mask: Tensor) -> Tensor:
    return values[mask].mean() if mask.any() else values.sum() * 0.0


def clipped(ratio: Tensor, a: Tensor, low: float, high: float) -> Tensor:
    return torch.maximum(-a * ratio, -a * ratio.clamp(low, high))


def hpt(made: Batch, rows: Tensor) -> Tensor:
    """A prompt that was solved leaves its on-policy rows, another one its target; gamma 0, coefficient 1."""
    target = made.prefix == made.lengths
    wins = torch.zeros(int(made.group.max()) + 1).index_add(0, made.group, (made.solved & ~target).float())
    rows = rows[torch.where(target, wins[made.group] == 0, wins[made.group] > 0)[rows]]
    a = advantages(made, made.solved.double(), ~target, deviation=False)[rows]
    log_prob, entropy = made.predict(rows)
    mask, is_target = made.mask[rows], target[rows].unsqueeze(-1)
    policy = (-a * (log_prob - made.old[rows]).exp())[mask & ~is_target].sum() / LIMIT
    return policy + mean(-log_prob, mask & is_target) - C * mean(entropy, mask)


def relift(made: Batch, rows: Tensor) -> Tensor:
    """No deviation, no clip."""
    a = advantages(made, made.solved.double(), torch.ones_like(made.solved), deviation=False)[rows]
    log_prob, entropy = made.predict(rows)
    mask = made.mask[rows]
    return (-a * (log_prob - made.old[rows]).exp())[mask].sum() / LIMIT - C * mean(entropy, mask)


def exgrpo_before(made: Batch, rows: Tensor) -> Tensor:
    """Until replay starts: PPO's clip, on-policy samples alone."""
    a = advantages(made, made.solved.double(), torch.ones_like(made.solved), deviation=False)[rows]
    log_prob, entropy = made.predict(rows)
    mask = made.mask[rows]
    losses = clipped((log_prob - made.old[rows]).exp(), a, 0.8, 1.2)
    return losses[mask].sum() / LIMIT - C * mean(entropy, mask)


def exgrpo(made: Batch, rows: Tensor) -> Tensor:
    """The first sample is replayed: ``r / (r + 0.1)`` against what was recorded; no clip for the others."""
    a = advantages(made, made.solved.double(), torch.ones_like(made.solved), deviation=False)[rows]
    log_prob, entropy = made.predict(rows)
    mask, off_policy = made.mask[rows], made.off_policy[rows]
    r = (log_prob - made.stored[rows]).exp()
    losses = -a * torch.where(off_policy, r / (r + 0.1), (log_prob - made.old[rows]).exp())
    return losses[mask].sum() / LIMIT - C * mean(entropy, mask)


def srft(made: Batch, rows: Tensor) -> Tensor:
    """``H`` is the mean entropy of a row under the current policy; right samples +0.1 e^H, wrong ones -1."""
    a = advantages(made, made.solved.double(), torch.ones_like(made.solved), deviation=False)[rows]
    log_prob, entropy = made.predict(rows)
    mask, off_policy = made.mask[rows], made.off_policy[rows]
    h = ((entropy * mask).sum(-1) / mask.sum(-1)).detach().unsqueeze(-1)
    outcome = torch.where(made.solved[rows].unsqueeze(-1), 0.1 * h.exp(), -1.0)
    p = log_prob.exp()
    losses = torch.where(off_policy, -a * p / (p + 0.1), -outcome * log_prob)
    supervised = mean(-0.5 * (-h).exp() * log_prob, mask & off_policy)
    return losses[mask].sum() / LIMIT + supervised - C * mean(entropy, mask)


def dapo(made: Batch, rows: Tensor) -> Tensor:
    """Rewards of -1 and 1, less up to 1 in the last fifth of the limit; clip 0.2 and 0.28; no entropy bonus."""
    buffer = 0.2 * LIMIT
    penalty = ((LIMIT - buffer - made.lengths) / buffer).clamp(-1.0, 0.0)
    scores = torch.where(made.solved, 1.0, -1.0).double() + penalty
    a = advantages(made, scores, torch.ones_like(made.solved), deviation=True)[rows]
    log_prob, _ = made.predict(rows)
    return mean(clipped((log_prob - made.old[rows]).exp(), a, 0.8, 1.28), made.mask[rows])


def uft(made: Batch, rows: Tensor) -> Tensor:
    """All samples continue a hint, which is a part of the prompt with a supervised loss; KL 0.001, entropy 0.001."""
    a = advantages(made, made.solved.double(), torch.ones_like(made.solved), deviation=True)[rows]
    log_prob, entropy = made.predict(rows)
    own, hint = made.own[rows], made.off_policy[rows]
    policy = mean(clipped((log_prob - made.old[rows]).exp(), a, 0.8, 1.2), own)
    difference = made.reference[rows] - log_prob
    divergence = mean((difference.exp() - difference - 1.0).clamp(-10.0, 10.0), own)
    return policy - C * mean(entropy, own) + 0.001 * mean(-log_prob, hint) + 0.001 * divergence


def cispo(made: Batch, rows: Tensor) -> Tensor:
    """The ratio, at most 5, weighs the gradient of log p; no entropy bonus."""
    a = advantages(made, made.solved.double(), torch.ones_like(made.solved), deviation=True)[rows]
    log_prob, _ = made.predict(rows)
    weight = (log_prob - made.old[rows]).exp().detach().clamp(max=5.0)
    return mean(-a * weight * log_prob, made.mask[rows])


def gspo(made: Batch, rows: Tensor) -> Tensor:
    """One ratio for a sample, the geometric mean of its tokens'; the mean over samples of token means."""
    a = advantages(made, made.solved.double(), torch.ones_like(made.solved), deviation=True)[rows]
    log_prob, _ = made.predict(rows)
    mask = made.mask[rows]
    s = (((log_prob - made.old[rows]) * mask).sum(-1) / mask.sum(-1)).exp().unsqueeze(-1)
    return clipped(s, a, 1 - 3e-4, 1 + 4e-4).mean()


Formula = Callable[[Batch, Tensor], Tensor]
NO_PREFIX, TARGET, HINT = [0] * 8, [-1] + [0] * 7, [4] * 8
# Of a published implementation: its formula, and the samples of a group.
SUMS: dict[str, tuple[Formula, list[int]]] = {
    "hpt": (hpt, [*TARGET, 0]),
    "relift": (relift, NO_PREFIX),
    "exgrpo before replay": (exgrpo_before, NO_PREFIX),
    "exgrpo": (exgrpo, TARGET),
    "srft": (srft, TARGET),
}
MEANS: dict[str, tuple[Formula, list[int]]] = {
    "dapo": (dapo, NO_PREFIX),
    "uft": (uft, HINT),
    "cispo": (cispo, NO_PREFIX),
    "gspo": (gspo, NO_PREFIX),
}
