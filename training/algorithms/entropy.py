"""Adaptive entropy coefficient: ``use_adaptive_temperature`` of seed 002. Plain floats, no torch.

The coefficient follows the entropy as the temperature of soft actor-critic does: gradient descent on
``log(coefficient) * (entropy - target)``, so it rises while the policy's entropy is below the target.
"""

import math
from dataclasses import dataclass

from training.algorithms.option_checks import contradiction
from training.algorithms.options import EntropyOptions


def next_entropy_coefficient(coefficient: float, entropy: float, options: EntropyOptions) -> float:
    """Return the coefficient for the next step, within ``[options.min, options.max]``.

    Args:
        coefficient: the present one, positive.
        entropy: mean token entropy of this step in nats, over on-policy tokens.

    Raises:
        ValueError: ``coefficient`` is not positive or ``entropy`` not finite.
    """
    if not coefficient > 0:
        raise ValueError(f"coefficient: expected a positive number, got {coefficient}")
    if not math.isfinite(entropy):
        raise ValueError(f"entropy: expected a finite number of nats, got {entropy}")
    moved = math.log(coefficient) - options.lr * (entropy - options.target)
    return math.exp(min(max(moved, math.log(options.min)), math.log(options.max)))


@dataclass
class EntropyController:
    """The coefficient between steps, constant unless ``options.use``. Put ``state_dict()`` into the checkpoint.

    Raises:
        InputError: an adaptive coefficient that starts at 0, where a change of its logarithm has no effect.
    """

    options: EntropyOptions
    coefficient: float

    def __post_init__(self) -> None:
        if self.options.use and not self.coefficient > 0:
            contradiction("adaptive_entropy.use", True, "entropy_coeff", self.coefficient, "it must start above 0")

    def update(self, entropy: float) -> float:
        """Move the coefficient by this step's mean token entropy (nats) and return it."""
        if not self.options.use:
            return self.coefficient
        self.coefficient = next_entropy_coefficient(self.coefficient, entropy, self.options)
        return self.coefficient

    def state_dict(self) -> dict[str, float]:
        """The state to save."""
        return {"coefficient": self.coefficient}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continue from a saved state; a KeyError when it is no state of this class."""
        self.coefficient = float(state["coefficient"])
