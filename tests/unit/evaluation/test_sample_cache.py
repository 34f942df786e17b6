"""What was drawn stays: complete files that never change, whatever happens to the process that writes them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.errors import InputError
from core.progress import BatchProgress
from evaluation.generation.endpoint import Endpoint
from evaluation.generation.generate import complete
from evaluation.generation.requests import Completion, SampleRequest, Sampling, prompt_digest
from evaluation.generation.sample_cache import SampleCache

ROOT = Path(__file__).resolve().parents[3]
GROUP = {"checkpoint": "c" * 64, "temperature": 1.0, "seed": 0}


def keys(n: int) -> list[tuple[str, int]]:
    return [(prompt_digest(f"{i}+1=?"), k) for i in range(n) for k in range(2)]


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def fill(root: Path, wanted: list[tuple[str, int]], group: dict = GROUP) -> None:
    with SampleCache(root, group) as cache:
        for number, key in enumerate(wanted):
            cache.add(key, Completion(f"response {number}", number, "stop"))


def test_samples_are_found_by_model_sampling_prompt_and_number(tmp_path):
    fill(tmp_path, keys(3))
    with SampleCache(tmp_path, GROUP) as cache:
        found = cache.lookup(keys(4))
        assert set(found) == set(keys(3))
        assert found[keys(3)[5]] == Completion("response 5", 5, "stop")
    for other in ({"checkpoint": "d" * 64}, {"temperature": 0.5}, {"seed": 1}):
        assert SampleCache(tmp_path, GROUP | other).lookup(keys(3)) == {}


def test_files_only_ever_appear(tmp_path):
    fill(tmp_path, keys(3))
    before = files(tmp_path)
    fill(tmp_path, [(prompt_digest("more"), 0)])
    fill(tmp_path, [(prompt_digest("more"), 0)])  # the same rows are the same file
    after = files(tmp_path)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 1
    assert all(len(Path(name).stem) == 64 for name in after if name.endswith(".parquet"))


def test_a_killed_writer_leaves_whole_files(tmp_path):
    program = (
        "import sys, time, evaluation.generation.sample_cache as c\n"
        "from evaluation.generation.requests import Completion, prompt_digest\n"
        "c.FLUSH_ROWS = 10\n"
        f"cache = c.SampleCache(sys.argv[1], {GROUP!r})\n"
        "for i in range(25):\n"
        "    cache.add((prompt_digest(str(i)), 0), Completion('x' * 1000, i, 'stop'))\n"
        "print('drawn', flush=True)\n"
        "time.sleep(60)\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout.readline() == "drawn\n"
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    found = SampleCache(tmp_path, GROUP).lookup((prompt_digest(str(i)), 0) for i in range(25))
    assert len(found) == 20
    assert not [name for name in files(tmp_path) if name.endswith(".tmp")]


def test_a_broken_file_is_named(tmp_path):
    fill(tmp_path, keys(1))
    (file,) = tmp_path.rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(InputError, match=rf"{file}: not a readable parquet file .*delete it to draw it again"):
        SampleCache(tmp_path, GROUP).lookup(keys(1))


def test_a_cache_that_keeps_nothing_is_refused_before_a_sample_is_drawn(tmp_path):
    (tmp_path / "file").write_text("")
    request = SampleRequest("b", "1", 0, "p", prompt_digest("p"), 1)
    with (
        SampleCache(tmp_path / "file", GROUP) as cache,
        pytest.raises(InputError, match="file is a file; expected a folder"),
    ):
        progress = BatchProgress("generate", {"b": 1}, print)
        list(complete(Endpoint.parse("m@http://127.0.0.1:9/v1"), [request], Sampling(), cache, progress))


def test_a_sample_is_on_disk_in_time_though_no_other_one_follows(tmp_path):
    with SampleCache(tmp_path, GROUP, flush_s=0.05) as cache:
        for number, key in enumerate(keys(2)):
            cache.add(key, Completion(f"response {number}", number, "stop"))
        deadline = time.monotonic() + 30
        while len(SampleCache(tmp_path, GROUP).lookup(keys(2))) < len(keys(2)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
