"""What a comparison materializes."""

import pytest

from pipelines import api
from pipelines.cli.selection import selection_keys
from pipelines.definitions.factory import build_defs
from pipelines.definitions.jobs import EVERYTHING
from research.trials import PREPARE, SCORE


@pytest.mark.parametrize(("profile", "sets"), [("embedded", []), ("tools", []), ("tools", ["suite.only=[calls]"])])
def test_benchmarks_of_every_group_are_scored(profile: str, sets: list[str]) -> None:
    settings = api.load(profile, sets)
    for role, selection in (("base", PREPARE), ("policy", SCORE)):
        keys, _ = selection_keys(build_defs(settings), selection, EVERYTHING)
        scored = {key.path[-1] for key in keys if role in key.path[1:2] and len(key.path) == 3}
        assert scored == {benchmark.name for benchmark in settings.suite.entries()}
