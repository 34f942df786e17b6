"""Measure what the Dagster side costs: loading, an unchanged run, ticks of the sensors, the start of the UI."""

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from core import PROJECT
from core.cli import say
from pipelines.api import luffy, luffy_definitions
from research.bench.measure import Used, call

PART = "group:models or group:benchmarks or group:targets"
TICKS = 5
CODE = """
import time
import dagster
started = time.perf_counter()
import pipelines.definitions.code_location
print(time.perf_counter() - started)
"""


def operations() -> None:
    """Print each figure with its target; all files are in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="luffy-operations-") as folder:
        for name in [name for name in os.environ if name.startswith(("LUFFY", "DAGSTER"))]:
            del os.environ[name]
        os.environ |= {"DAGSTER_HOME": f"{folder}/home", "LUFFY__STORAGE__ROOT": f"{folder}/storage"}
        say(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        loads = [float(call(sys.executable, "-c", CODE)) for _ in range(TICKS)]
        _figure("the code location, beyond Dagster", statistics.median(loads), 0.3)
        luffy("run", "--select", PART)
        with Used() as used:
            luffy("run", "--select", PART)
        command = f"; the command {used.seconds:.1f} s, {used.cpu:.1f} CPU s"
        _figure("a run of unchanged assets", _last_run(), 10, command)
        _ticks()
        _ui()


def _figure(what: str, seconds: float, target: float, more: str = "") -> None:
    say(f"{what:40} {seconds:6.2f} s  (target {target:g} s{more})")


def _last_run() -> float:
    """Return the seconds from the launch of the last run to its end, as Dagster recorded them."""
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        (record,) = instance.get_run_records(limit=1)
    assert record.end_time is not None
    return record.end_time - record.create_timestamp.timestamp()


def _ticks() -> None:
    """Print the seconds of the first tick of each sensor, which imports and reads, and the median of the others."""
    import dagster as dg

    defs = luffy_definitions(settings={"storage": {"root": os.environ["LUFFY__STORAGE__ROOT"]}})
    assert defs.resources is not None
    resources = {name: value for name, value in defs.resources.items() if name.endswith("storage")}
    with dg.DagsterInstance.get() as instance:
        for sensor in defs.sensors or []:
            if isinstance(sensor, dg.AutomationConditionSensorDefinition | dg.RunStatusSensorDefinition):
                continue  # evaluated by the daemon
            cursor, seconds = None, []
            for _ in range(TICKS):
                context = dg.build_sensor_context(
                    instance=instance, cursor=cursor, definitions=defs, resources=resources
                )
                started = time.perf_counter()
                cursor = sensor.evaluate_tick(context).cursor
                seconds.append(time.perf_counter() - started)
            _figure(f"a tick of {sensor.name}", statistics.median(seconds[1:]), 1, f"; the first {seconds[0]:.2f} s")


def _ui() -> None:
    """Print the seconds until ``luffy ui`` answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = time.perf_counter()
    command = [sys.executable, "-m", "pipelines.cli.luffy", "ui", "--port", str(port)]
    served = subprocess.Popen(
        command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5).close()
                break
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                assert served.poll() is None, "the UI ended"
                time.sleep(0.1)
        _figure("luffy ui answers", time.perf_counter() - started, 20)
    finally:
        served.send_signal(signal.SIGINT)
        try:
            served.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(served.pid, signal.SIGKILL)
