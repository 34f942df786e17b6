"""The adaptive entropy coefficient. Plain floats, no torch.

The coefficient follows the entropy as the temperature of soft actor-critic does (arXiv 1812.05905, section 5): gradient
descent on ``log(coefficient) * (entropy - target)``, so it rises while the policy's entropy is below the target.
"""

import math
from dataclasses import dataclass

from training.algorithms.option_conflicts import contradiction
from training.algorithms.options import EntropyOptions


def next_entropy_coefficient(coefficient: float, entropy: float, options: EntropyOptions) -> float:
    """Return the coefficient of the next step: ``c exp(-lr (H - target))``, held within ``[options.min, options.max]``.

    >>> round(next_entropy_coefficient(0.01, 0.3, EntropyOptions(use=True, target=0.5, lr=0.5)), 4)  # 0.01 exp(0.1)
    0.0111

    Args:
        coefficient: ``c``, that of this step, positive.
        entropy: ``H``, the mean token entropy of this step in nats.

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
        InputError: an adaptive coefficient starts at 0, where a change of its logarithm has no effect.
    """

    options: EntropyOptions
    coefficient: float

    def __post_init__(self) -> None:
        if self.options.use and not self.coefficient > 0:
            why = "it must start above 0"
            raise contradiction("adaptive_entropy.use", True, "entropy_coeff", self.coefficient, why)

    def update(self, entropy: float) -> float:
        """Move the coefficient by this step's mean token entropy (nats) and return it."""
        if self.options.use:
            self.coefficient = next_entropy_coefficient(self.coefficient, entropy, self.options)
        return self.coefficient

    def state_dict(self) -> dict[str, float]:
        return {"coefficient": self.coefficient}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.coefficient = float(state["coefficient"])
