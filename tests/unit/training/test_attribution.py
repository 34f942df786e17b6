"""The parts of the measurement of attribution: projections, gradients, scores by text, the score of a method."""

import numpy as np
import pytest
import torch

from core.arithmetic import problems
from perf.trainings.attribution import (
    Likelihood,
    by_text,
    datamodelling_score,
    half,
    harmful_share,
    poisoned,
    project,
    tracin,
)
from training.embedded_model.resolve_model import SHIPPED


def test_a_method_that_knows_the_effects_has_the_score_one():
    generator = np.random.default_rng(1)
    effects = generator.normal(size=(20, 6))
    halves = np.stack([half(number, 20) for number in range(12)])
    assert set(halves.sum(axis=1)) == {10}
    outcomes = halves @ effects
    assert datamodelling_score(effects, halves, outcomes) == pytest.approx((1.0, 1.0, 1.0))
    mean, low, high = datamodelling_score(generator.normal(size=(20, 6)), halves, outcomes)
    assert low <= mean <= high and mean < 0.6
    assert datamodelling_score(np.ones((20, 6)), halves, outcomes)[0] == 0.0  # every half has the same sum


def test_a_projection_keeps_inner_products():
    generator = torch.Generator().manual_seed(3)
    gradients = torch.randn(3, 9000, generator=generator)
    gradients[1] = gradients[0] + 0.1 * gradients[1]
    exact, kept = gradients @ gradients.T, project(gradients) @ project(gradients).T
    assert torch.allclose(exact, kept, atol=0.15 * float(exact[0, 0]))
    assert torch.equal(project(gradients), project(gradients.clone()))


def test_a_gradient_step_raises_the_likelihood_as_much_as_it_says():
    (problem,) = problems("train", 1)
    likelihood = Likelihood(SHIPPED)
    gradient, before, rate = likelihood.gradient(problem), float(likelihood.of(problem)), 1e-4
    start = 0
    with torch.no_grad():
        for parameter in likelihood.parameters:
            parameter += rate * gradient[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()
    assert start == len(gradient)
    assert float(likelihood.of(problem)) - before == pytest.approx(rate * float(gradient @ gradient), rel=0.1)


def test_a_problem_is_most_like_itself_by_its_text():
    drawn = problems("train", 4)
    assert (by_text(drawn, drawn).argmax(axis=0) == np.arange(4)).all()


@pytest.mark.slow
def test_the_similarity_of_gradients_is_that_of_an_inner_product():
    drawn = problems("train", 3)
    scores = tracin([SHIPPED], drawn, drawn)
    assert np.allclose(scores, scores.T, rtol=1e-3) and (np.linalg.eigvalsh(scores) > 0).all()
    gradient = Likelihood(SHIPPED).gradient(drawn[0])
    assert scores[0, 0] == pytest.approx(float(gradient @ gradient), rel=0.2)


def test_a_poisoned_solution_has_a_wrong_step_and_the_right_answer():
    (problem,) = problems("train", 1)
    bad = poisoned(problem)
    assert bad.answer == problem.answer and bad.trace.endswith(f"\\boxed{{{problem.answer}}}")
    different = [(a, b) for a, b in zip(problem.trace.splitlines(), bad.trace.splitlines(), strict=True) if a != b]
    ((right, wrong),) = different
    assert eval(right.replace("=", "==")) and not eval(wrong.replace("=", "=="))


def test_the_share_of_the_poison_among_the_most_harmful():
    scores = np.arange(40, dtype=float)[:, None]
    bad = np.zeros(40, bool)
    bad[[0, 30]] = True
    assert harmful_share(scores, bad) == 0.5
