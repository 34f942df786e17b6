"""The generated reference names everything that can be set, run or seen."""

import json
import subprocess
import sys

import pytest
import typer

from core import PROJECT
from core.metric_table import METRICS
from core.plugins.config_files import RECIPES, config_names
from pipelines.cli.luffy import app
from pipelines.reference.settings_pages import leaves
from pipelines.settings import Settings


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    command = [sys.executable, "-m", "pipelines.reference"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_setting_and_option_has_a_row_with_a_meaning(pages):
    for key, _ in leaves(Settings):
        assert f"\n| `{key}` | " in pages["reference/settings.md"], key
    for metric in METRICS:
        assert f"\n| `{metric.name}` | " in pages["reference/metrics.md"], metric.name
    for page in ("settings", "training-options", "assets"):
        rows = [line for line in pages[f"reference/{page}.md"].splitlines() if line.startswith("| `")]
        assert rows and not [row for row in rows if row.endswith("|  |")], page


def test_every_recipe_command_and_asset_is_there(pages):
    for recipe in config_names(RECIPES):
        assert f"\n### {recipe}\n" in pages["reference/recipes.md"]
    for command in typer.main.get_command(app).commands:
        assert f"\n## luffy {command}\n" in pages["reference/commands.md"]
    for other in ("train export", "evaluate export", "targets push"):
        assert f"\n### luffy {other}\n" in pages["reference/commands.md"]
    for asset in ("targets/train", "targets/generated", "targets/difficulty", "training/policy", "registry/champion"):
        assert f"\n| `{asset}` | " in pages["reference/assets.md"]
    assert "\n| `every_trace_accounted_for` | `targets/train` | error | " in pages["reference/assets.md"]
