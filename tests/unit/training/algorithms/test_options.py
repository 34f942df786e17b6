"""Options: what combines, what excludes each other, and that a message names the key. No torch for options."""

import itertools
import math
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from training.algorithms.aggregate import Reduce
from training.algorithms.correction import Correction
from training.algorithms.options import Options
from training.algorithms.regularize import AdaptiveEntropy, next_entropy_coefficient
from training.methods import method_of, resolved
from training.methods.given import RunValues
from training.methods.on_policy import OnPolicy
from training.plugins import METHODS

SUPERVISED = "sft"
TRAINING = Path(__file__).resolve().parents[4] / "training"


def checked(values: dict[str, Any], n: int = 8, **run: Any) -> OnPolicy:
    method = method_of(resolved(values))
    method.check(RunValues(n, **run))
    assert isinstance(method, OnPolicy)
    return method


@pytest.mark.parametrize("name", METHODS)
def test_the_methods_are_valid_and_survive_a_round_trip_to_the_workers(name):
    method = method_of(resolved({"type": name}))
    assert type(method).model_validate_json(method.model_dump_json()).model_dump() == method.model_dump()
    assert resolved({"type": name, **method.model_dump()}) == {"type": name, **method.model_dump()}
    assert isinstance(hash(method), int)
    if name != SUPERVISED:
        method.check(RunValues(n=8))


def modes(of: type[Options]) -> tuple[str, ...]:
    return get_args(of.model_fields["type"].annotation)


def test_options_combine_freely():
    entropies = {"type": "constant"}, {"type": "adaptive"}
    for name, mode, type, entropy in itertools.product(METHODS, modes(Reduce), modes(Correction), entropies):
        if name != SUPERVISED:
            checked({"type": name, "reduce": {"type": mode}, "correction": {"type": type}, "entropy": entropy})


CONTRADICTIONS = [
    ({"type": "luffy", "prefix": {"min": 0.9, "max": 0.1}}, "prefix.min=0.9 contradicts prefix.max=0.1"),
    (
        {"type": "luffy", "correction": {"type": "tis", "low": 6.0}},
        "correction.low=6.0 contradicts correction.high=5.0",
    ),
    ({"type": "luffy", "entropy": {"type": "adaptive", "min": 1.0}}, "entropy.min=1.0 contradicts entropy.max=0.1"),
    ({"type": "luffy", "off_policy": {"min": 2.0, "max": 1.0}}, "off_policy.min=2.0 contradicts off_policy.max=1.0"),
    ({"type": "hpt", "imitation": {"valley": 0.1}}, "imitation.valley=0.1 contradicts imitation.decay_steps=0"),
    ({"type": "chord", "imitation": {"coef": 2.0}}, "imitation.coef: got 2.0, expected at most 1"),
    ({"type": "luffy", "prefix": {"n": 0}}, "prefix.n: got 0, expected 1 or more"),
    ({"type": "luffy", "prefix": {"n": 9}}, "method.prefix.n=9 contradicts rollout.n=8: a group has only n samples"),
    ({"type": "luffy", "prefix": {"n": 8}}, "method.prefix.n=8 and actor_rollout_ref.rollout.n=8: all samples"),
    ({"type": "multitask", "prefix": {"n": -1}}, "baseline=on_policy contradicts method.prefix.n=-1"),
    (
        {"type": "luffy", "prefix": {"n": -1}, "filter": {"by": "on_policy"}},
        "filter.by=on_policy contradicts method.pre",
    ),
    (
        {"type": "luffy", "prefix": {"n": 8}, "guide": "until_solved"},
        "guide=until_solved contradicts method.prefix.n=8",
    ),
    ({"type": "hpt", "gate": {"gamma": 7}}, "method.gate.gamma=7 contradicts rollout.n=8: no group has more successes"),
    ({"type": "pope", "prefix": {"n": 1}}, "a group of one teaches nothing"),
    ({"type": "pope", "of": "answer", "place": "response"}, "method.of=answer contradicts method.place=response"),
    ({"type": "pope", "advantage": {"baseline": "on_policy"}}, "place=prompt contradicts method.advantage.baseline"),
    ({"type": "opd", "advantage": {"use_std": True}}, "use_std=True contradicts method.teacher.task_rewards=False"),
    (
        {"type": "on_policy", "on_policy": {"type": "vespo"}, "correction": {"type": "tis"}},
        "on_policy.type=vespo contradicts method.correction.type=tis: the loss compares with the rollout engine",
    ),
    (
        {"type": "on_policy", "advantage": {"rewards": {"score": 1.0}}, "length_penalty": {}},
        "method.advantage.rewards=set contradicts method.length_penalty=set",
    ),
    ({"type": "trapo", "stages": (4, 2, 1)}, "stages: got 3, expected one more than of ratios and of below"),
    ({"type": "trapo", "stages": [3, 2, 1, 1]}, "method.stages=[3, 2, 1, 1] contradicts rollout.n=8"),
    ({"type": "luffy", "teacher": {}, "guide": "failed"}, "method.teacher=set contradicts method.guide=failed"),
    ({"type": "opd", "teacher": {"scale": 1.25}}, "method.teacher.scale=1.25 contradicts method.reference=None"),
    ({"type": "opd", "length_penalty": {}}, "the teacher's scores alone are the advantage"),
    ({"type": "opd", "teacher": {"model": "self"}}, "teacher.model=self contradicts teacher.sees=nothing"),
    (
        {"type": "rlsd", "teacher": {"coef": 2.0}},
        "method.teacher.coef=2.0 contradicts method.type=rlsd: the teacher scales",
    ),
    ({"type": "luffy", "divergence": {}}, "method.divergence=set contradicts method.teacher=None"),
    ({"type": "opd", "divergence": {}, "teacher": {"max_advantage": 1.0}}, "max_advantage=1.0 contradicts method.div"),
    ({"type": "rlsd", "divergence": {}}, "method.divergence=set contradicts method.type=rlsd"),
    ({"type": "opd", "filter": {}}, "method.teacher=set contradicts method.filter=set"),
    ({"type": "exgrpo", "prompts": {}}, "method.type=exgrpo contradicts method.prompts=set"),
    ({"type": "exgrpo", "filter": {}}, "what a step replays depends on all groups of the step before"),
    *(
        ({"type": "srft", name: value}, f"method.type=srft contradicts method.{name}=")
        for name, value in {"length_penalty": {}, "teacher": {}, "beta": 0.5}.items()
    ),
    ({"type": "exgrpo", "replay": {"share": 0.0}}, "method.replay.share: Input should be greater than 0"),
]


@pytest.mark.parametrize(("values", "words"), CONTRADICTIONS)
def test_a_contradiction_names_both_options(values, words):
    with pytest.raises(InputError, match=re.escape(words)):
        checked(values)


def test_a_method_is_checked_against_the_rest_of_the_run():
    with pytest.raises(InputError, match=r"rollout\.n=1: the advantage of a sample is its distance"):
        checked({"type": "on_policy"}, n=1)
    for values in ({"type": "hpt", "prefix": {"n": 1}}, {"type": "exgrpo"}):
        with pytest.raises(InputError, match=r"rollout\.n|prefix\.n"):
            checked(values, n=1)
    with pytest.raises(InputError, match=r"rollouts\.type=colocate_async"):
        checked({"type": "exgrpo"}, rollouts="colocate_async")
    own = {"type": "opd", "teacher": {"model": "self", "sees": "target"}}
    with pytest.raises(InputError, match="it waits until all samples of a step are drawn"):
        checked({"type": "opd", "teacher": {"sees": "sample"}}, rollouts="separate_async")
    with pytest.raises(InputError, match="a batch depends on the outcomes of the previous batch"):
        checked({"type": "luffy", "prompts": {}}, rollouts="colocate_async")
    with pytest.raises(InputError, match="the weights can change between a sample and its score"):
        checked(own, rollouts="separate_async")
    with pytest.raises(InputError, match=r"temperature=0\.6"):
        checked(own, temperature=0.6)
    checked({"type": "luffy", "prefix": {"n": 8}}, target_ratio=0.5)
    checked({"type": "luffy", "advantage": {"use_std": True}, "teacher": {"task_rewards": False}})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"type": "lufy"}, "method.type: got 'lufy', expected one of on_policy, luffy, "),
        ({"off_polic": {}}, "method.off_polic is not a setting; did you mean off_policy?"),
        (
            {"off_policy": {"reshape": {"gama": 1.0}}},
            "method.off_policy.reshape.gama is not a setting; did you mean gamma?",
        ),
        (
            {"off_policy": {"reshape": {"type": "pow", "gamma": 1.0}}},
            "reshape.gamma is not a setting; expected one of type,",
        ),
        (
            {"on_policy": {"type": "sapo", "clip": {}}},
            "method.on_policy.clip is not a setting; expected one of type, tau_pos",
        ),
        ({"prefix": 4}, "method.prefix: Input should be a valid dictionary"),
        ({"prefix": {"type": "rising"}}, "method.prefix.type: got 'rising', expected one of fixed, random, linear,"),
        ({"prefix": {"steps": 3}}, "method.prefix.steps is not a setting; expected one of n, min, max, type"),
        ({"prefix": {"max": 1.1}}, "method.prefix.max: Input should be less than or equal to 1 (got 1.1)"),
        ({"prefix": {"n": 1.0}}, "method.prefix.n: Input should be a valid integer (got 1.0)"),
        (
            {"advantage": {"baseline": "mean"}},
            "method.advantage.baseline: Input should be 'all_samples' or 'on_policy'",
        ),
        ({"advantage": {"use_std": 1}}, "method.advantage.use_std: Input should be a valid boolean (got 1)"),
        ({"on_policy": {"clip": {"low": 0}}}, "method.on_policy.clip.low: Input should be greater than 0 (got 0)"),
        ({"off_policy": {"max": math.nan}}, "method.off_policy.max: Input should be a finite number (got nan)"),
        (
            {"guide": "pass_rate<2"},
            "method.guide: got 'pass_rate<2', expected always, until_solved, failed or",
        ),
    ],
)
def test_a_wrong_value_names_its_key(values, words):
    with pytest.raises(InputError) as error:
        resolved({"type": "luffy", **values})
    assert words in str(error.value)


def options_of(kind: type[Options]) -> set[type[Options]]:
    return {kind, *(below for child in kind.__subclasses__() for below in options_of(child))}


def test_every_option_is_read():
    for name in METHODS:
        resolved({"type": name})
    text = "\n".join(file.read_text(encoding="utf-8") for file in TRAINING.rglob("*.py"))
    read = set(re.findall(r"\.(\w+)", text))
    kinds = [kind for kind in options_of(Options) if kind.__module__.startswith("training.")]
    assert len(kinds) > 40
    assert {f"{kind.__name__}.{name}" for kind in kinds for name in kind.model_fields if name not in read} == set()


ENTROPY = AdaptiveEntropy(target=0.5, lr=0.1, min=1e-4, max=1e-1)


@settings(max_examples=100)
@given(st.lists(st.floats(0, 12), max_size=30), st.floats(1e-4, 1e-1))
def test_the_entropy_coefficient_moves_against_the_difference_and_stays_within_its_bounds(entropies, before):
    for entropy in entropies:
        after = next_entropy_coefficient(before, entropy, ENTROPY)
        assert ENTROPY.min * (1 - 1e-9) <= after <= ENTROPY.max * (1 + 1e-9)
        assert after <= before * (1 + 1e-9) if entropy >= ENTROPY.target else after >= before * (1 - 1e-9)
        before = after


def test_the_entropy_coefficient_continues_after_a_resume(tmp_path: Path):
    def step(method: OnPolicy, entropy: float) -> float:
        method.end_step({"actor/entropy": entropy})
        return method.coefficients(0)["entropy_loss"]

    entropies = [0.1, 0.9, 0.3, 0.2, 0.6]
    whole, first, resumed = (OnPolicy(entropy=ENTROPY) for _ in range(3))
    expected = [step(whole, entropy) for entropy in entropies]
    head = [step(first, entropy) for entropy in entropies[:2]]
    first.save(tmp_path)
    resumed.load(tmp_path)
    assert head + [step(resumed, entropy) for entropy in entropies[2:]] == expected
    assert step(OnPolicy(), 3.0) == -0.001  # one that is not adaptive stays
