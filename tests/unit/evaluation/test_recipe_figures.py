"""Curves of several runs on one axis, and the gradient weights of shaping."""

from xml.etree import ElementTree

import pytest

from evaluation.report.recipe_comparison import Experiment, Run
from evaluation.report.recipe_figures import Figure, Line, figures, gradient_weight, plot


def records(*values: float) -> list[dict]:
    return [{"step": step, "data": {"actor/entropy": value}} for step, value in enumerate(values, 1)]


def test_curves_share_an_axis_and_escape_their_names():
    lines = [Line("a", "#000", [(1, 0.0), (2, 1.0)]), Line("<b>", "#000", [(1, 0.5), (4, 0.5)]), Line("c", "#000", [])]
    drawn = plot(Figure("reward", "Reward <i>", lines, "step"), legend=True)
    assert drawn.count("<polyline") == 2 and "step 4" in drawn and "<b>" not in drawn and "<i>" not in drawn
    flat = plot(Figure("flat", "Flat", [Line("a", "#000", [(1, 2.0), (2, 2.0)])], "step"), legend=False)
    assert flat.count("<polyline") == 1 and "nan" not in flat


def test_several_seeds_are_a_mean_before_faint_lines():
    runs = (Run("x", {}, records(0.0, 1.0)), Run("y", {}, records(1.0, float("nan"))))
    found = {f.name: f for f in figures([Experiment("luffy", runs)], {"luffy": "#123456"})}
    assert list(found) == ["actor_entropy", "gradient_weight"]
    assert [line.points for line in found["actor_entropy"].lines if not line.faint] == [[(1.0, 0.5), (2.0, 1.0)]]
    assert sum(line.faint for line in found["actor_entropy"].lines) == 2
    for figure in found.values():
        assert ElementTree.fromstring(figure.alone()).tag == "{http://www.w3.org/2000/svg}svg"


def test_facts_of_several_seeds_are_said_once_or_for_each():
    runs = tuple(Run(str(k), {}, facts={"steps": 60, "minutes": minutes}) for k, minutes in enumerate((6.4, 7.0, 6.4)))
    assert Experiment("luffy", runs).facts() == {"steps": "60", "minutes": "6.4; 7.0; 6.4"}
    unknown = Run("3", {}, facts={"steps": 60})
    assert Experiment("luffy", (unknown, *runs)).facts() == {"steps": "60", "minutes": "–; 6.4; 7.0; 6.4"}


def test_shaping_weighs_rare_tokens_more():
    assert gradient_weight(0.5, None) == 0.25
    assert gradient_weight(0.02, 0.1) > 5 * gradient_weight(0.02, None)
    assert gradient_weight(0.9, 0.1) < gradient_weight(0.9, None)
    assert gradient_weight(0.0, 0.1) == gradient_weight(1.0, 0.1) == pytest.approx(0)
