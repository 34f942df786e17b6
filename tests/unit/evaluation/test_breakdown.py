"""Scores by subject and by length hold every sample once; costs say what the records say."""

from itertools import pairwise

import manifests
import pyarrow as pa
import pytest

from core.schemas import GRADED
from evaluation.report.scorecard.lineage_summary import costs
from evaluation.statistics.benchmark_scores import by_length, by_subject


def table(rows: list[tuple[str, str | None, int, float]]) -> pa.Table:
    """From (id, subject, tokens, score) of single samples."""
    names = ("id", "subject", "tokens", "score")
    records = [dict(zip(names, row, strict=True)) | {"benchmark": "b", "sample": 0} for row in rows]
    return pa.Table.from_pylist(records, schema=GRADED)


def test_subjects_hold_their_problems():
    base = table([("1", "Algebra", 5, 1), ("2", "Algebra", 5, 0), ("3", "Geometry", 5, 0), ("4", None, 5, 1)])
    policy = table([("1", "Algebra", 5, 1), ("2", "Algebra", 5, 1), ("3", "Geometry", 5, 0), ("4", None, 5, 1)])
    algebra, geometry = by_subject(base, policy)
    assert (algebra.name, algebra.problems, algebra.base[1], algebra.policy[1]) == ("Algebra", 2, 0.5, 1.0)
    assert (geometry.problems, geometry.policy[1]) == (1, 0.0)
    assert geometry.policy[2] > 0.5  # one problem says little
    assert by_subject(base.filter(pa.array([True, True, False, False])), policy) == ()


def test_fine_difficulties_are_levels():
    rows = table([("1", "2.0", 5, 1), ("2", "2.5", 5, 0), ("3", "4.25", 5, 1)])
    assert [(s.name, s.problems) for s in by_subject(rows, rows)] == [("level 2", 2), ("level 4", 1)]


@pytest.mark.parametrize("n", [1, 4, 5, 23, 100])
def test_length_bins_hold_every_sample_once(n):
    rows = table([(str(i), None, i // 3, float(i % 2)) for i in range(n)])
    bins = by_length(rows)
    assert sum(b.samples for b in bins) == n
    assert sum(b.samples * b.mean for b in bins) == pytest.approx(sum(rows["score"].to_pylist()))
    assert all(before.high < after.low for before, after in pairwise(bins))


def test_costs_are_those_of_the_records():
    metrics = [{"step": i, "data": {"timing_s/step": 30.0, "perf/total_num_tokens": 1000}} for i in range(1, 61)]
    trainer, finished = {"nnodes": 2, "n_gpus_per_node": 8}, "2026-01-01T00:45:00+00:00"
    lineage = manifests.manifest(config={"trainer": trainer}, finished=finished)
    results = {"policy": {"b": table([("1", None, 7, 1), ("2", None, 5, 0)])}}
    assert costs(lineage, metrics, results) == [
        ("training", "30.0 min in 60 steps on 16 devices: 8.00 device-hours"),
        ("last attempt at training, with start and export", "45.0 min"),
        ("tokens trained on", "60,000"),
        ("samples of the policy", "2 with 12 tokens"),
    ]
    assert costs(None, [], {}) == []
