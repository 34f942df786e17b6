"""A snapshot of all assets, groups, jobs, schedules and sensors; ``python -m tests.defs.test_keys`` writes it anew."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from pipelines.embedding import luffy_definitions

FILE = Path(__file__).resolve().parents[1] / "golden" / "definitions.txt"
TEACHER = {"generate": {"teacher": "teacher@http://127.0.0.1:9/v1", "problems": "problems.jsonl"}, "difficulty": {}}


def names(title: str, defs: dg.Definitions) -> Iterator[str]:
    graph = defs.resolve_asset_graph()
    yield f"# {title}"
    for node in sorted(graph.asset_nodes, key=lambda node: node.key):
        yield f"asset {node.key.to_user_string()}: {node.group_name}"
    for job in sorted(defs.jobs or (), key=lambda job: job.name):
        layer = defs.resolve_job_def(job.name).asset_layer
        yield f"job {job.name}: {' '.join(sorted(key.to_user_string() for key in layer.selected_asset_keys))}"
    for kind, parts in (("schedule", defs.schedules), ("sensor", defs.sensors)):
        for part in sorted(parts or (), key=lambda part: part.name):
            yield f"{kind} {part.name}: {part.default_status.value}"


def snapshot() -> str:
    from tests.defs.test_definitions import definitions

    embedded = luffy_definitions(key_prefix=["team", "reasoner"], settings=TEACHER)
    lines = [*names("embedded", definitions("embedded")), *names("paper", definitions("paper"))]
    return "\n".join([*lines, *names("in another project, with a teacher and pass rates", embedded)]) + "\n"


def test_every_name_is_as_it_was() -> None:
    assert snapshot() == FILE.read_text(encoding="utf-8")


if __name__ == "__main__":
    FILE.write_text(snapshot(), encoding="utf-8")
