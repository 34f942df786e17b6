"""What a test found: a sentence with the figures, three samples, and the curve that shows it."""

from collections.abc import Sequence
from dataclasses import dataclass

from training.job.records.rollout_log import Rollout

SHOWN = 3  # samples


@dataclass(frozen=True)
class Evidence:
    """The evidence for a cause.

    Attributes:
        text: a sentence with the figures and the threshold.
        samples: up to three that show it.
        curve: name of the metric that shows it; "" for none.
    """

    text: str
    samples: Sequence[Rollout] = ()
    curve: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", tuple(self.samples[:SHOWN]))


def share(samples: Sequence[Rollout], chosen: Sequence[Rollout]) -> float:
    """Return the share of ``chosen`` among ``samples``; 0 of none."""
    return len(chosen) / max(len(samples), 1)
