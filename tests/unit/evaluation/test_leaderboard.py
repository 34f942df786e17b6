"""A board ranks what can be compared, and nothing else."""

import json

import pytest

from core.errors import InputError
from core.files import write_table
from evaluation.report.leaderboard import collect, leaderboard_markdown, leaderboard_text


@pytest.fixture
def write(graded, tmp_path):
    """Writes graded results of a checkpoint that solves so many of each benchmark's 20 problems."""

    def make(checkpoint: str, solved: dict[str, int], samples: int = 1, **sampling: float) -> None:
        settings = {"temperature": 0.6, "seed": 0, "samples": samples} | sampling
        for name, n in solved.items():
            table = graded({f"p{i}": [int(i < n)] * samples for i in range(20)}, name, checkpoint * 64)
            metadata = {"sampling": json.dumps(settings), "model": f"models/{checkpoint}|1"}
            folder = f"{checkpoint}{samples}{len(list(tmp_path.rglob('*')))}"
            write_table(table, tmp_path / name / folder / "graded.parquet", metadata)

    return make


def test_checkpoints_are_ranked_with_paired_differences(write, tmp_path):
    write("a", {"x": 4, "y": 10})
    write("b", {"x": 16, "y": 12})
    write("c", {"x": 16, "y": 11})
    (board,) = collect(tmp_path)
    assert (board.benchmarks, board.problems) == (("x", "y"), 40)
    assert [place.checkpoint[0] for place in board.places] == ["b", "c", "a"]
    assert [place.mean for place in board.places] == pytest.approx([0.7, 0.675, 0.35])
    assert board.places[2].difference == pytest.approx(-0.35)
    assert board.places[2].high < 0 < board.places[1].high
    text = leaderboard_text([board])
    assert text.splitlines()[0] == "40 problems; temperature 0.6, seed 0, prompt not recorded"
    assert "1 bbbbbbbbbbbbbbbb models/b|1" in text and "-35.0 [" in text
    assert "| 1 | bbbbbbbbbbbbbbbb models/b\\|1 | 70.0% |" in leaderboard_markdown([board])


def test_what_was_not_evaluated_alike_is_on_another_board(write, tmp_path):
    write("a", {"x": 4, "y": 10})
    write("b", {"x": 4, "y": 10})
    write("c", {"x": 4})
    write("d", {"x": 4, "y": 10}, temperature=1.0)
    write("e", {"x": 4, "y": 10}, samples=2)
    boards = collect(tmp_path)
    assert [sorted(place.checkpoint[0] for place in board.places) for board in boards] == [
        ["a", "b"], ["e"], ["d"], ["c"],
    ]  # fmt: skip


def test_nothing_to_rank_is_said(tmp_path):
    with pytest.raises(InputError, match="no graded results below it"):
        collect(tmp_path)
    (tmp_path / "graded.parquet").write_text("not parquet")
    with pytest.raises(InputError, match=r"graded.parquet: not a readable parquet file"):
        collect(tmp_path)
