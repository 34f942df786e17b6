"""perf.trainings.rounds: the table of the trainings."""

from perf.trainings.rounds import ALL, CHANCE, ROUNDS, interval, table


def test_points_are_counted_by_the_tokens_of_each_seed():
    runs = {ROUNDS: [(0.9, 2000), (0.7, 1000)], ALL: [(0.9, 10000), (0.8, 10000)], CHANCE: [(0.5, 2000), (0.5, 1000)]}
    lines = table(runs).splitlines()
    assert "80.0 [-47.1, 207.1]" in lines[2] and "| 1,500 |" in lines[2] and "57.5 [" in lines[2]  # 45 and 70
    assert "| 10,000 | 8.5 [" in lines[3]
    assert lines[-1] == "rounds minus chance, points: 30.0 [-97.1, 157.1]"
    assert interval([3.0]) == "3.0"
