"""`luffy train check`: the shipped methods hold, and what does not is named."""

from typing import Any

import pytest
import torch

from core.errors import InputError
from training.algorithms.term import LossInputs, LossOutputs, Policy
from training.methods import method_of, resolved
from training.methods.luffy import Luffy
from training.plugins import METHODS
from training.verl_hooks.conformance import check_method

MORE = [
    {"type": "luffy", "prompts": {}, "guide": "until_solved"},
    {"type": "opd", "teacher": {"scale": 1.25}, "reference": {"coef": 0.0}},
    {"type": "luffy", "on_policy": {"type": "vespo"}},
    {"type": "luffy", "correction": {"type": "negative-mask", "negative_kl": 0.1}},
    {
        "type": "on_policy",
        "on_policy": {"type": "gspo"},
        "length_penalty": {},
        "reduce": {"type": "seq-mean-token-sum"},
    },
    {"type": "luffy", "correction": {"type": "reinforce_pro"}, "reduce": {"type": "published"}},
]


@pytest.mark.parametrize("values", [*({"type": name} for name in METHODS), *MORE], ids=str)
def test_the_shipped_methods_conform(values: dict[str, Any]) -> None:
    assert check_method(method_of(resolved(values)))


class Averaged(Policy):
    """A mean over the rows of a micro-batch."""

    def losses(self, x: LossInputs) -> LossOutputs:
        outputs = super().losses(x)
        return LossOutputs(outputs.losses / len(x.log_prob), outputs.stats)


class Inverse(Policy):
    def losses(self, x: LossInputs) -> LossOutputs:
        return LossOutputs(1e300 / x.log_prob.exp().square().square())


class Late(Policy):
    """Later positions weigh more, observations counted."""

    def losses(self, x: LossInputs) -> LossOutputs:
        outputs = super().losses(x)
        return LossOutputs(outputs.losses * torch.arange(x.log_prob.shape[1]), outputs.stats)


class Positional(Luffy):
    def policy(self) -> Policy:
        return Late(on=self.on_policy, off=self.off_policy)


class Cut(Luffy):
    def policy(self) -> Policy:
        return Averaged(on=self.on_policy, off=self.off_policy)


class Overflowing(Luffy):
    def policy(self) -> Policy:
        return Inverse(on=self.on_policy, off=self.off_policy)


class Forgetful(Luffy):
    guide: Any = "until_solved"

    def restore(self, state: dict[str, Any]) -> None:
        pass


class Uncounted(Luffy):
    def coefficients(self, step: int) -> dict[str, float]:
        return {"entropy_loss": 0.0}


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Cut(), "in one micro-batch, .* in 3 on 1 ranks"),
        (Overflowing(), "not finite where all probabilities are 1e-30"),
        (Positional(), "where responses have observations"),
        (Forgetful(), "the state is not what save"),
        (Uncounted(), "no coefficient of pg_loss"),
    ],
)
def test_what_does_not_hold_is_named(method: Luffy, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_method(method)
