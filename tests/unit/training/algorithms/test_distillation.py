"""The scores of a teacher: what must hold for any batch."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from training.algorithms.teacher import Teacher, teacher_advantage  # noqa: E402

USE = Teacher()
LENGTH = 3
VALUES = st.lists(st.floats(-6.0, 0.0), min_size=2 * LENGTH, max_size=2 * LENGTH)


@settings(max_examples=60, deadline=None)
@given(VALUES, VALUES, st.lists(st.booleans(), min_size=2 * LENGTH, max_size=2 * LENGTH), st.floats(0.1, 3.0))
def test_the_advantage_is_bounded_and_only_of_scored_tokens(own, teachers, scored, bound) -> None:
    log_prob, teacher = (torch.tensor(values).view(2, LENGTH) for values in (own, teachers))
    mask = torch.tensor(scored).view(2, LENGTH)
    advantage = teacher_advantage(log_prob, teacher, mask, Teacher(max_advantage=bound))
    assert not advantage[~mask].any()
    assert advantage.abs().max() <= bound + 1e-6
    assert torch.equal(advantage.sign()[mask], (teacher - log_prob).sign()[mask])
    # The scores of a teacher that agrees on every token say nothing.
    assert not teacher_advantage(log_prob, log_prob, mask, USE).any()
    # What stands at the other tokens has no influence, even when it is not finite.
    broken = torch.where(mask, teacher, torch.nan)
    assert torch.equal(teacher_advantage(log_prob, broken, mask, USE), teacher_advantage(log_prob, teacher, mask, USE))
