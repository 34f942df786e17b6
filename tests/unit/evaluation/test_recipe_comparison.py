"""Curves of several runs on one axis, the facts of several seeds, and the gradient weights of shaping."""

import pytest

from evaluation.report.charts import curves
from evaluation.report.figures import gradient_weight, recipe_curves
from evaluation.report.recipe_comparison import Recipe, Run


def records(*values: float) -> list[dict]:
    return [{"step": step, "data": {"actor/entropy": value}} for step, value in enumerate(values, 1)]


def test_several_seeds_are_a_mean_before_faint_lines(monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        "evaluation.report.figures.curves",
        lambda title, lines, **options: drawn.setdefault(title, lines) and curves(title, lines, **options),
    )
    runs = [records(0.0, 1.0), records(1.0, float("nan"))]
    figures = recipe_curves({"luffy": runs}, {"luffy": "#123456"}, legend=True)
    assert list(figures) == ["actor_entropy", "gradient_weight"]
    assert [line.points for line in drawn["Entropy"] if not line.faint] == [[(1.0, 0.5), (2.0, 1.0)]]
    assert sum(line.faint for line in drawn["Entropy"]) == 2
    assert figures["actor_entropy"].count("opacity: 0.25") == 2


def test_facts_of_several_seeds_are_said_once_or_for_each():
    runs = tuple(Run(str(k), {}, facts={"steps": 60, "minutes": minutes}) for k, minutes in enumerate((6.4, 7.0, 6.4)))
    assert Recipe("luffy", runs).facts() == {"steps": "60", "minutes": "6.4; 7.0; 6.4"}
    unknown = Run("3", {}, facts={"steps": 60})
    assert Recipe("luffy", (unknown, *runs)).facts() == {"steps": "60", "minutes": "–; 6.4; 7.0; 6.4"}


def test_shaping_weighs_rare_tokens_more():
    assert gradient_weight(0.5, None) == 0.25
    assert gradient_weight(0.02, 0.1) > 5 * gradient_weight(0.02, None)
    assert gradient_weight(0.9, 0.1) < gradient_weight(0.9, None)
    assert gradient_weight(0.0, 0.1) == gradient_weight(1.0, 0.1) == pytest.approx(0)
