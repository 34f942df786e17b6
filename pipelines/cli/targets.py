"""``luffy targets``: the command line of ``python -m targets``, which reads suites in its own process."""

from typing import TYPE_CHECKING

from evaluation.settings import BenchmarkSettings, SuiteSettings
from targets.commands import Prepare

if TYPE_CHECKING:
    import pyarrow as pa


class Targets(Prepare):
    """The default command."""

    def read_suite(self, name: str) -> "pa.Table":
        from evaluation.benchmarks.benchmark_problems import read_suite

        folders = BenchmarkSettings(roots=[str(root.absolute()) for root in self.benchmark_roots]).folders
        return read_suite(SuiteSettings(name=name).entries(), folders)
