"""Samples that call a tool, by a real vLLM on the base of the profile tools; in the training interpreter only."""

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("vllm")

from generation_runs import run

from core import PROJECT
from core.files import write_table
from core.model.calls import Call, read_calls
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite
from grading.graded_table import Verifiers, grade_table
from grading.tools.settings import ToolSettings
from grading.tools.tool import Context
from grading.tools.toolbox import Toolbox

TOOLS = ToolSettings(use=[{"type": "calculator"}], format="tags", turns=4)


@pytest.mark.timeout(300)
def test_samples_call_tools_and_do_not_depend_on_others(tmp_path: Path, cache: Path) -> None:
    table = read_suite([entry for entry in load_suite("tools") if entry.name.startswith("calls")], [], limit=12)
    write_table(table, suite := tmp_path / "suite.parquet")
    options = ["--profile", "tools", "--model", PROJECT / "training/embedded_model/tools", "--suite", suite]
    options += ["--temperature", 1, "--max-tokens", 100]
    run(*options, "--samples", 3, "--cache", cache, "--out", tmp_path / "all")
    samples, alone = (pq.read_table(tmp_path / "all" / f"{name}.parquet") for name in ("calls", "calls_alone"))
    assert "turns" not in alone.column_names
    with Toolbox(TOOLS) as toolbox:
        for row in samples.to_pylist():
            *earlier, last = row["turns"]
            assert (row["response"], len(earlier) <= 6) == (last["content"], True)
            for turn, observation in zip(earlier[::2], earlier[1::2], strict=True):
                calls = read_calls(turn["content"], "tags", TOOLS.schemas())
                assert observation["content"] == toolbox.run(calls, [], Context({}, 0))[0].observation
    assert max(len(row["turns"]) for row in samples.to_pylist()) > 1

    run(*options, "--samples", 1, "--benchmarks", "calls", "--cache", tmp_path / "other", "--out", tmp_path / "one")
    one = pq.read_table(tmp_path / "one" / "calls.parquet")
    assert one.to_pylist() == [row for row in samples.to_pylist() if row["sample"] == 0]
    run(*options, "--samples", 3, "--cache", cache, "--out", tmp_path / "again")
    assert pq.read_table(tmp_path / "again" / "calls.parquet").equals(samples)

    with Verifiers(1) as verifiers:
        graded = grade_table(samples, table, verifiers)
    assert "no_think_end" not in graded["verdict"].to_pylist() and graded.column_names[-1] == "turns"


SHOP = """
from mcp.server.mcpserver import MCPServer
server, left = MCPServer("shop"), {"nails": 7}
@server.tool()
def take(article: str) -> str:
    left[article] -= 1
    return str(left[article])
server.run()
"""


@pytest.mark.timeout(300)
def test_the_example_of_a_tool_calls_an_mcp_server_as_often_as_the_episode_did(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    kind, command = f"{PROJECT}/examples/tools/mcp_server.py:McpServer", [sys.executable, str(tmp_path / "shop.py")]
    with Toolbox(ToolSettings(use=[{"type": kind, "name": "take", "command": command}], seconds=100)) as toolbox:
        calls = [Call("take", {"article": article}) for article in ("nails", "gold", "nails")]
        made = toolbox.run(calls, [], Context({}, 0))
    assert [exchange.observation for exchange in made] == ["6", "error: Error executing tool take", "5"]
