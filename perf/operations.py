"""Measure what the Dagster side costs: ``.venv/bin/python -m perf.operations``.

It prints the load average at the start. Then it times a run of unchanged assets, a tick of every sensor, the start of
the UI until it answers, and the asset page in a real browser after 1,000 materializations. All files are in a temporary
folder.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from pathlib import Path

from core import PROJECT
from perf.deployments.deployment import free_port
from perf.measurement import Timed, call

BROWSER = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PART = "group:models or group:benchmarks or group:targets"
MATERIALIZATIONS = 1000
TICKS = 5


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="luffy-operations-") as folder:
        for name in [name for name in os.environ if name.startswith(("LUFFY", "DAGSTER"))]:
            del os.environ[name]
        traces = Path(folder, "traces.parquet")
        os.environ |= {
            "DAGSTER_HOME": f"{folder}/home",
            "LUFFY__STORAGE__ROOT": f"{folder}/storage",
            "LUFFY__TARGETS__SOURCE": f"[embedded, '{traces}']",
            "LUFFY__TARGETS__MAPPING": "{problem: problem, answer: answer, response: response}",
        }
        os.chdir(PROJECT)
        warnings.simplefilter("ignore")  # Dagster's own use of its own beta parameters
        sys.stdout.write(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
        _write_traces(traces)
        _run()
        with Timed() as command:
            _run()
        used = f"; the command with its start {command.clock:.1f} s, processor {command.cpu:.1f} s"
        _say("a run of unchanged assets", _last_run(), 10, used)
        for name, (first, seconds) in _ticks().items():
            _say(f"a tick of {name}", seconds, 1, f"; the first {first:.2f} s")
        _materialize()
        _ui()


def _say(what: str, seconds: float, target: float, more: str = "") -> None:
    sys.stdout.write(f"{what:40} {seconds:6.2f} s  (target {target:g} s{more})\n")
    sys.stdout.flush()


def _write_traces(file: Path, rows: int = 20_000) -> None:
    """Write a source that is large enough to be worth caching between ticks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [f"What is {n} + 1?" for n in range(rows)]
    answers = [str(n + 1) for n in range(rows)]
    responses = [f"<think>\n{n} and one more.\n</think>\n\nSo \\boxed{{{n + 1}}}." for n in range(rows)]
    pq.write_table(pa.table({"problem": texts, "answer": answers, "response": responses}), file)


def _run() -> None:
    call(sys.executable, "-m", "pipelines.cli.luffy", "run", "--select", PART)


def _last_run() -> float:
    """Return the seconds from the launch of the last run to its end, as Dagster recorded them."""
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        (record,) = instance.get_run_records(limit=1)
    assert record.end_time is not None
    return record.end_time - record.create_timestamp.timestamp()


def _ticks() -> dict[str, tuple[float, float]]:
    """Return the seconds of the first tick, which imports and reads, and the median of the others, by sensor."""
    import dagster as dg

    from pipelines.definitions.code_location import defs

    assert defs.resources is not None
    ticks = {}
    with dg.DagsterInstance.get() as instance:
        for sensor in defs.sensors or []:
            if isinstance(sensor, dg.AutomationConditionSensorDefinition) or sensor.name == "notify_run_failures":
                continue  # evaluated by the daemon
            cursor, seconds = None, []
            for _ in range(TICKS):
                context = dg.build_sensor_context(
                    instance=instance,
                    cursor=cursor,
                    definitions=defs,
                    resources={"storage": defs.resources["storage"]},
                )
                started = time.perf_counter()
                cursor = sensor.evaluate_tick(context).cursor
                seconds.append(time.perf_counter() - started)
            ticks[sensor.name] = seconds[0], statistics.median(seconds[1:])
        seconds = []
        for _ in range(TICKS):
            started = time.perf_counter()
            dg.evaluate_automation_conditions(defs, instance=instance)
            seconds.append(time.perf_counter() - started)
        ticks["retrain_on_new_targets"] = seconds[0], statistics.median(seconds[1:])
    return ticks


def _materialize() -> None:
    import dagster as dg

    from assets.targets import TRAIN

    with dg.DagsterInstance.get() as instance:
        for number in range(MATERIALIZATIONS):
            metadata = {"dagster/row_count": number, "preview": dg.MetadataValue.md("| a |\n|---|\n| b |")}
            tags = {"dagster/data_version": f"{number:064}"}
            instance.report_runless_asset_event(dg.AssetMaterialization(TRAIN, metadata=metadata, tags=tags))


def _ui() -> None:
    port = free_port()
    address, started = f"http://127.0.0.1:{port}", time.perf_counter()
    served = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli.luffy", "ui", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while True:
            try:
                urllib.request.urlopen(f"{address}/server_info", timeout=5).close()
                break
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                assert served.poll() is None, "the UI ended"
                time.sleep(0.1)
        _say("luffy ui answers", time.perf_counter() - started, 20)
        if BROWSER.exists():
            _say("the asset page, 1,000 materializations", _page(address), 2)
    finally:
        served.send_signal(signal.SIGINT)
        try:
            served.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(served.pid, signal.SIGKILL)


def _page(address: str) -> float:
    """Seconds until the asset page shows the last row count; the median of three visits after a first one."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(BROWSER), args=FLAGS)
        page = browser.new_page(base_url=address)
        page.set_default_timeout(60_000)
        seconds = []
        for _ in range(4):
            started = time.perf_counter()
            page.goto("/assets/targets/train")
            page.get_by_text("Row count", exact=True).first.wait_for()
            seconds.append(time.perf_counter() - started)
        browser.close()
    return statistics.median(seconds[1:])


if __name__ == "__main__":
    main()
