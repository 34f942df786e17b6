"""Counts of traces take no more memory than the values that are reported."""

from targets.counts import MOST_VALUES, Counts, Tally


def test_many_values_are_counted_in_bounded_memory() -> None:
    tally = Tally()
    for number in range(2 * MOST_VALUES):
        tally.keep("a.jsonl", "math", {"course": str(number)})
    counts = Counts([])
    counts.read(tally)
    counts.decided(tally)
    assert len(counts.breakdown["course"]) == MOST_VALUES + 1
    assert not counts.all.metadata and counts.all.sources["a.jsonl"]["kept"] == 4 * MOST_VALUES
    assert len(tally.metadata) == 2 * MOST_VALUES
