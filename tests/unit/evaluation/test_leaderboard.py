"""A ranking holds what can be compared, and nothing else."""

import json
import os

import pytest

from core.errors import InputError
from core.files import write_table
from evaluation.report.leaderboard import leaderboard_markdown, leaderboard_text, rank_folder


@pytest.fixture
def write(graded, tmp_path):
    """Writes graded results of a checkpoint that solves so many of each benchmark's 20 problems."""

    def make(
        checkpoint: str, solved: dict[str, int], samples: int = 1, grading: dict | None = None, **sampling: float
    ) -> None:
        settings = {"temperature": 0.6, "seed": 0, "samples": samples} | sampling
        for name, n in solved.items():
            table = graded({f"p{i}": [int(i < n)] * samples for i in range(20)}, name, checkpoint * 64)
            metadata = {"sampling": json.dumps(settings), "model": f"models/{checkpoint}|1"}
            metadata |= {"grading": json.dumps(grading)} if grading else {}
            folder = f"{checkpoint}{samples}{len(list(tmp_path.rglob('*')))}"
            write_table(table, tmp_path / name / folder / "graded.parquet", metadata)

    return make


def test_checkpoints_are_ranked_with_paired_differences(write, tmp_path):
    write("a", {"x": 4, "y": 10})
    write("b", {"x": 16, "y": 12})
    write("c", {"x": 16, "y": 11})
    (ranking,) = rank_folder(tmp_path)
    assert (ranking.benchmarks, ranking.problems) == (("x", "y"), 40)
    assert [entry.checkpoint[0] for entry in ranking.entries] == ["b", "c", "a"]
    assert [entry.mean for entry in ranking.entries] == pytest.approx([0.7, 0.675, 0.35])
    assert ranking.entries[2].difference == pytest.approx(-0.35)
    assert ranking.entries[2].high < 0 < ranking.entries[1].high
    text = leaderboard_text([ranking])
    assert text.splitlines()[0] == (
        f"40 problems, digest {ranking.digest[:8]}; temperature 0.6, seed 0, prompt not recorded"
    )
    assert "1  bbbbbbbbbbbbbbbb models/b|1" in text and "-35.0 [" in text
    assert "| 1 | bbbbbbbbbbbbbbbb models/b\\|1 | 70.0% |" in leaderboard_markdown([ranking])


def test_what_was_evaluated_differently_is_ranked_separately(write, tmp_path):
    write("a", {"x": 4, "y": 10})
    write("b", {"x": 4, "y": 10})
    write("c", {"x": 4})
    write("d", {"x": 4, "y": 10}, temperature=1.0)
    write("e", {"x": 4, "y": 10}, samples=2)
    rankings = rank_folder(tmp_path)
    assert [sorted(entry.checkpoint[0] for entry in ranking.entries) for ranking in rankings] == [
        ["a", "b"], ["e"], ["d"], ["c"],
    ]  # fmt: skip


@pytest.mark.parametrize("changed", ["problems", "verifiers"])
def test_other_gold_answers_or_verifiers_are_ranked_separately(write, tmp_path, changed):
    grading = {"problems": "p", "verifiers": {"math": "v"}}
    write("a", {"x": 4}, grading=grading)
    write("b", {"x": 5}, grading=grading)
    write("c", {"x": 9}, grading=grading | {changed: "other"})
    rankings = rank_folder(tmp_path)
    assert [[entry.checkpoint[0] for entry in ranking.entries] for ranking in rankings] == [["b", "a"], ["c"]]
    assert rankings[0].title != rankings[1].title


@pytest.mark.parametrize("first_is_newer", [True, False])
def test_the_newest_of_equally_many_samples_counts(write, tmp_path, first_is_newer):
    write("a", {"x": 4}, grading={"problems": "old"})
    (first,) = tmp_path.rglob("*.parquet")
    write("a", {"x": 9}, grading={"problems": "corrected"})
    (second,) = set(tmp_path.rglob("*.parquet")) - {first}
    for file, time in ((first, 2 if first_is_newer else 1), (second, 1 if first_is_newer else 2)):
        os.utime(file, (time, time))
    ((entry,),) = [ranking.entries for ranking in rank_folder(tmp_path)]
    assert entry.mean == pytest.approx(0.2 if first_is_newer else 0.45)


def test_nothing_to_rank_is_said(tmp_path):
    with pytest.raises(InputError, match="no graded results below it"):
        rank_folder(tmp_path)
    (tmp_path / "graded.parquet").write_text("not parquet")
    with pytest.raises(InputError, match=r"graded.parquet: not a readable parquet file"):
        rank_folder(tmp_path)
