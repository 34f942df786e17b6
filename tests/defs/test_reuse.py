"""What makes a result be reused: its identity, whatever code made it; and what makes it anew: its number, or force."""

from typing import Any

import dagster as dg

from core import kinds
from tests.defs.small_targets import INPUTS

PREPARED = dg.AssetKey(["targets", "prepared"])


def warnings(project: Any, result: Any) -> list[str]:
    entries = (record.event_log_entry for record in project.instance.get_records_for_run(result.run_id).records)
    return [
        entry.user_message for entry in entries if not entry.is_dagster_event and "other code" in entry.user_message
    ]


def test_a_result_of_other_code_is_reused_with_a_line_and_made_anew_by_force_or_number(build, monkeypatch) -> None:
    def run(**settings: str) -> tuple[str, str, bool, list[str]]:
        project = build(targets__embedded_rows="50", benchmarks__limit="5", **settings)
        result = project.run(*INPUTS, "targets/prepared", "targets/rejected")
        assert result.success
        event = project.instance.get_latest_materialization_event(PREPARED).asset_materialization
        metadata = project.metadata("targets/prepared")
        return metadata["file"], event.tags["luffy/made_by"], metadata["reused"], warnings(project, result)

    file, maker, reused, lines = run()
    assert maker == kinds.PREPARED.code_version and not reused and lines == []
    monkeypatch.setattr(kinds, "code_digest", lambda *packages: "f" * 64)
    again, tag, reused, lines = run()
    assert (again, tag, reused) == (file, maker, True)
    of_prepared = [line for line in lines if "/targets/prepared/" in line]
    assert len(of_prepared) == 1 and "other code made it" in of_prepared[0] and "--force" in of_prepared[0]
    forced, tag, reused, lines = run(storage__force="true")
    assert forced == file.replace("/prepared.parquet", "-2/prepared.parquet") and tag == "f" * 16 and not reused
    assert [line for line in lines if "/targets/prepared/" in line or "decisions" in line] == []
    monkeypatch.setitem(vars(kinds.PREPARED), "number", kinds.PREPARED.number + 1)
    numbered, _, reused, lines = run()
    assert numbered not in (file, forced) and not reused and lines == []
