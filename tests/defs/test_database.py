"""Dagster's database in the processes of a run: what is opened again is made once."""

import json
import subprocess
import sys
from pathlib import Path

import dagster as dg

from core import PROJECT

RUN = """
import json, os, sys
import dagster as dg
from alembic.script import ScriptDirectory
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from pipelines.definitions.database import reuse_engines

made = []
read, create = ScriptDirectory.from_config, sqlite_event_log.create_engine
ScriptDirectory.from_config = lambda config: [made.append("scripts"), read(config)][1]
sqlite_event_log.create_engine = lambda url, **more: [made.append(os.path.basename(url)), create(url, **more)][1]
reuse_engines()
reuse_engines()

@dg.asset
def one(): ...

for _ in range(2):
    with dg.DagsterInstance.local_temp(sys.argv[1]) as instance:
        dg.materialize([one], instance=instance)
print(json.dumps(made))
"""


def test_an_engine_is_made_once_for_each_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, tmp_path], cwd=PROJECT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        runs = instance.get_runs()
        assert [run.status for run in runs] == [dg.DagsterRunStatus.SUCCESS] * 2
        assert len(instance.fetch_materializations(dg.AssetKey("one"), limit=9).records) == 2
    assert sorted(made) == sorted(["scripts", "index.db", *(f"{run.run_id}.db" for run in runs)])
