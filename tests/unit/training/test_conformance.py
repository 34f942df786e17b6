"""`luffy train check`: the shipped methods hold, and what does not is named."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import PrivateAttr
from torch import Tensor

from core.errors import InputError
from training.algorithms.samples import Samples
from training.algorithms.term import LossInputs, LossOutputs, Policy
from training.methods import method_of, resolved
from training.methods.luffy import Luffy
from training.plugins import METHODS
from training.verl_hooks.conformance import check_method

MORE = [
    {"type": "luffy", "prompts": {}, "guide": "until_solved"},
    {"type": "opd", "teacher": {"scale": 1.25}, "reference": {"coef": 0.0}},
    {"type": "opd", "divergence": {}},
    {"type": "luffy", "teacher": {}, "divergence": {"a": 0.0}},
    {"type": "luffy", "on_policy": {"type": "vespo"}},
    {"type": "on_policy", "advantage": {"rewards": {"correct": 1.0, "form": 0.5}}},
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


class Summed(Policy):
    def losses(self, x: LossInputs) -> LossOutputs:
        return LossOutputs(super().losses(x).losses.sum(-1))


class ByRow(Luffy):
    def policy(self) -> Policy:
        return Summed(on=self.on_policy, off=self.off_policy)


class Undefined(Luffy):
    def outcomes(self, samples: Samples, scores: Tensor) -> Tensor:
        return super().outcomes(samples, scores) / 0.0


class Flat(Luffy):
    def outcomes(self, samples: Samples, scores: Tensor) -> Tensor:
        return scores


class Unsaved(Luffy):
    """Its state is in no checkpoint."""

    _mean: float = PrivateAttr(0.0)

    def note(self, samples: Samples, tools: Any) -> dict[str, float]:
        self._mean += float(samples.rows["rm_scores"].mean())
        return super().note(samples, tools)


class Unready(Unsaved):
    """Its state is a mean over the samples of a step, also where there are none."""

    def note(self, samples: Samples, tools: Any) -> dict[str, float]:
        self._mean = float(samples.rows["rm_scores"][samples.sampled].mean())
        return {}

    def state(self) -> dict[str, Any]:
        return super().state() | {"mean": self._mean}


class Curious(Luffy):
    def fields(self) -> list[str]:
        return ["difficulty"]


class Bare(Policy):
    def losses(self, x: LossInputs) -> Any:
        return -x.advantages * x.log_prob


class ByTensor(Luffy):
    def policy(self) -> Policy:
        return Bare(on=self.on_policy, off=self.off_policy)


class Constant(Policy):
    def losses(self, x: LossInputs) -> LossOutputs:
        return LossOutputs(-x.advantages * x.log_prob.detach(), {})


class Detached(Luffy):
    def policy(self) -> Policy:
        return Constant(on=self.on_policy, off=self.off_policy)


class Misnamed(Luffy):
    def after_updates(self, tools: Any) -> dict[str, float]:
        return {}


class Misspelled(Luffy):
    def note(self, samples: Any, tools: Any) -> dict[str, float]:
        return {"length": samples.lenghts.mean()}


class Worded(Luffy):
    def note(self, samples: Samples, tools: Any) -> Any:
        return {"length": "long"}


class Shares(Luffy):
    def plan(self, prompt: Any, n: int) -> Any:
        return [0.5] * n


class Unsigned(Luffy):
    def signal(self, samples: Samples, rewards: Any, step: int) -> Any:
        return None


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (ByTensor(), r"losses\(\) of Bare: got Tensor, expected LossOutputs"),
        (Detached(), "does not depend on the policy"),
        (Misnamed(), r"after_updates: nothing calls or reads it; did you mean after_update\?"),
        (Misspelled(), r"note\(\) in line \d+ of .*test_conformance.py: AttributeError: .*'lenghts'"),
        (Worded(), r"note\(\): length: expected metrics that are numbers"),
        (Shares(), r"plan\(\): got float, expected starts"),
        (Unsigned(), r"signal\(\): got NoneType, expected a Signal"),
        (Cut(), "in one micro-batch, .* in 3 on 1 ranks"),
        (Overflowing(), "not finite where all probabilities are 1e-30"),
        (Positional(), "where responses have observations"),
        (Forgetful(), "the state is not what save"),
        (Uncounted(), "no coefficient of pg_loss"),
        (ByRow(), r"losses\(\) of Summed: got \[24\], expected \[24, 10\]"),
        (Flat(), r"advantages: got \[24\], expected \[24, 10\]"),
        (Undefined(), "advantages: some are not finite"),
        (Unsaved(), "load\\(\\): _mean changed in a step"),
        (Unready(), "Out of range float .* after a step without samples"),
        (Curious(), "samples have no difficulty, .* read samples.rewards"),
    ],
)
def test_what_does_not_hold_is_named(method: Luffy, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_method(method)


def test_a_field_without_a_default_is_asked_of_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from training.methods.luffy import Luffy\nclass Mine(Luffy):\n    power: float\n")
    with pytest.raises(InputError, match=r"method\.power: Field required"):
        resolved({"type": f"{file}:Mine"})
    assert resolved({"type": f"{file}:Mine", "power": 2})["power"] == 2
