"""Choose the prompts of a batch by what their samples have scored so far. No torch.

A draw depends on the seed, the step and what was seen, so a resumed run draws what an unbroken one does.
"""

from collections.abc import Sequence
from random import Random
from typing import Annotated, Literal

from pydantic import Field

from training.algorithms.options import Options, Share

Belief = tuple[float, float]  # the parameters of a Beta distribution over the success rate of a prompt


class Thompson(Options):
    """Prompts of which a draw of the success rate is nearest to ``target``: BOTS (arXiv 2510.26374).

    The success rate of a prompt is Beta(a, b), at first Beta(1, 1). After ``k`` of ``n`` samples were right,
    ``a' = (1 - decay) a + decay + k`` and ``b' = (1 - decay) b + decay + n - k``.

    >>> choice = Thompson()
    >>> choice.after((1.0, 1.0), 4, 16)
    (5.0, 13.0)
    >>> [round(value, 9) for value in choice.after((5.0, 13.0), 8, 16)]
    [12.6, 19.8]
    >>> choice.draw([7, 8, 9], {7: (900.0, 1.0), 8: (500.0, 500.0), 9: (1.0, 900.0)}, 1, seed=0)
    [8]
    """

    type: Literal["thompson"] = "thompson"
    target: Share = 0.5
    decay: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1  # how much of what was seen is forgotten

    def after(self, belief: Belief, successes: int, samples: int) -> Belief:
        """Return what is believed of a prompt after a group of it."""
        a, b = ((1.0 - self.decay) * value + self.decay for value in belief)
        return a + successes, b + samples - successes

    def draw(self, prompts: Sequence[int], beliefs: dict[int, Belief], size: int, seed: int) -> list[int]:
        """Return the ``size`` of the ``prompts`` to sample next."""
        random = Random(seed)
        drawn = {prompt: random.betavariate(*beliefs.get(prompt, (1.0, 1.0))) for prompt in sorted(prompts)}
        return sorted(drawn, key=lambda prompt: abs(drawn[prompt] - self.target))[:size]
