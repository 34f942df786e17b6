"""The simulator of the modes of rollouts: what it must say where the answer can be worked out by hand."""

import doctest
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import PROJECT
from perf.trainings import rollouts
from perf.trainings.rollouts import Phases, fit, generated, simulate

FIXED = Phases(iteration=0.01, sample=0.0, token=0.0, step=4.0, weights=0.5)
MODES = [("sync", 0), ("colocate_async", 1), ("separate_async", 1), ("separate_async", 2)]
BATCH = [[100, 300], [200, 50]]


def test_the_examples_are_true():
    failed, tried = doctest.testmod(rollouts)
    assert tried and not failed


def test_a_synchronous_step_is_the_sum_of_its_phases():
    phases = Phases(iteration=0.01, sample=0.001, token=0.002, step=1.0, weights=0.5)
    # 50 tokens of 4 samples, 50 of 3, 100 of 2 and 100 of 1: 300 iterations, 650 tokens.
    assert simulate("sync", 0, phases, [BATCH] * 3).seconds == pytest.approx(3 + 0.65 + 1.3 + 1.0 + 0.5)


def test_separate_rollouts_hide_the_shorter_phase():
    assert simulate("separate_async", 1, FIXED, [BATCH] * 20).seconds == pytest.approx(4.5)
    one_at_a_time = Phases(iteration=0.01, sample=0.0, token=0.0, step=2.0, weights=0.5, slots=1)
    slow_rollouts = simulate("separate_async", 1, one_at_a_time, [BATCH] * 60)
    assert slow_rollouts.seconds == pytest.approx(6.5 + 0.5, rel=0.05)  # 650 iterations, interrupted by the weights
    assert slow_rollouts.rollouts > 0.9 > 0.4 > slow_rollouts.trainer


def test_servers_share_the_samples_and_their_slots_bound_what_runs_at_once():
    one, two = (Phases(0.01, 0.0, 0.0, 0.0, 0.0, servers=servers, slots=1) for servers in (1, 2))
    assert simulate("sync", 0, one, [BATCH] * 3).seconds == pytest.approx(6.5)
    assert simulate("sync", 0, two, [BATCH] * 3).seconds < 4.5


def test_a_long_sample_delays_a_stale_batch_less():
    batches = [[[100]] * 7 + [[1000]]] * 30
    by_age = [simulate("separate_async", staleness, FIXED, batches).seconds for staleness in (0, 1, 2)]
    assert by_age[0] == pytest.approx(10 + 4.5) and by_age[0] > by_age[1] > by_age[2]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.lists(st.lists(st.integers(1, 60), min_size=2, max_size=2), min_size=3, max_size=3), min_size=6, max_size=9
    ),
    st.sampled_from(MODES),
    st.integers(1, 3),
)
def test_no_mode_does_more_than_its_devices_can(batches, mode: tuple[str, int], servers: int):
    phases = Phases(iteration=0.1, sample=0.01, token=0.01, step=0.5, weights=0.1, servers=servers, slots=4)
    result = simulate(*mode, phases, batches)
    assert 0 < result.trainer <= 1 and 0 <= result.rollouts <= 1 + 1e-9 and 0 <= result.age <= mode[1]
    if mode[0] != "separate_async":  # one after the other
        assert result.trainer + result.rollouts <= 1 + 1e-9


def test_the_phases_of_a_run_are_found_again():
    phases = Phases(iteration=0.02, sample=0.003, token=0.004, step=0.3, weights=0.2)
    batches = [[[length, 2 * length], [15, 20 * number]] for number, length in itertools.product((3, 9), (40, 70, 90))]
    records = []
    for batch in batches:
        tokens = sum(map(sum, batch))
        generation = simulate("sync", 0, Phases(0.02, 0.003, 0.0, 0.0, 0.0), [batch]).seconds
        parts = {"old_log_prob": 0.001 * tokens, "adv": 0.0, "update_actor": 0.003 * tokens, "update_weights": 0.2}
        parts |= {"gen": generation, "save_checkpoint": 7.0}
        records.append(
            {f"timing_s/{name}": value for name, value in (parts | {"step": sum(parts.values()) + 0.3}).items()}
        )
    found = fit(records, batches)
    for name in ("iteration", "sample", "token", "step", "weights"):
        assert getattr(found, name) == pytest.approx(getattr(phases, name)), name


def test_the_generated_tokens_of_a_step_leave_out_whole_targets(tmp_path):
    rows = [("a", "<think>", 0), ("a", "12", 3), ("b", "345", 0), ("b", "678", 1)]
    lines = [json.dumps({"input": i, "output": o, "prefix_length": prefix}) + "\n" for i, o, prefix in rows]
    (tmp_path / "1.jsonl").write_text("".join(lines))
    first, second = generated(tmp_path / "1.jsonl", PROJECT / "training/embedded_model/model/tokenizer.json")
    assert len(first) == 1 and second[1] == second[0] - 1
