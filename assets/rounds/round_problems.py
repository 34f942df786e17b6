"""What the assets of rounds share: their keys, and the problems that the teacher can be asked about."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from assets.shared.profile import Luffy, Names
from assets.shared.references import Reference
from assets.shared.storage import Storage
from core import PROJECT, kinds
from core.files import digest_file
from targets.settings import TargetSettings
from targets.source_settings import GENERATED, Source

if TYPE_CHECKING:
    import pyarrow as pa

    from evaluation.generation.teacher_traces import Problem

GROUP = "rounds"
FILE = "problems.parquet"


def key(number: int, name: str) -> dg.AssetKey:
    """The key of the asset ``name`` of a round."""
    return dg.AssetKey([GROUP, str(number), name])


def round_of(names: Names, asset: dg.AssetKey) -> int:
    """The number of the round that an asset belongs to."""
    return int(names.plain(asset).path[1])


@dataclass(frozen=True)
class Pool:
    """The problems of all rounds: those that a policy can be trained on, by their digests."""

    source: Source  # what the teacher's traces are to the preparation
    options: TargetSettings  # of the preparation: the traces are its only source
    problems: "dict[str, Problem]"
    table: "pa.Table"  # BENCHMARK
    digest: str


def read_pool(luffy: Luffy, base: Reference, suite: Reference, storage: Storage) -> Pool:
    """Read the file ``generate.problems``, and leave out what no filter would let through."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from core.files import write_table
    from evaluation.generation.teacher_traces import TRACE, read_problems
    from grading.contamination import BenchmarkIndex
    from targets.problems import read_problems as measurable
    from targets.select.dedupe import problem_digest

    entry = next((one for one in luffy.settings.targets.source if getattr(one, "path", one) == GENERATED), GENERATED)
    options = luffy.settings.targets.model_copy(update={"source": [entry]})
    (source,) = options.sources
    config = luffy.settings.generate
    assert config is not None
    file = PROJECT / Path(config.problems).expanduser()
    given = read_problems(file, config.problem_column, config.answer_column, source.fields)
    digest = kinds.PREPARED.identity(digest_file(file), options.digest(), base.digest, suite.digest)
    folder = storage.folder(GROUP, "problems", digest)
    if not folder.exists():
        with storage.writing(folder, kinds.PREPARED) as temporary:
            unanswered = {"response": "none", "sample": 0, "teacher": "", "generation": "", "verdict": ""}
            rows = [
                {"problem": p.text, "answer": p.answer, "id": p.id, "fields": p.fields, **unanswered} for p in given
            ]
            schema = pa.schema([*TRACE, ("fields", pa.string())])
            write_table(pa.Table.from_pylist(rows, schema=schema), temporary / "unanswered.parquet")
            index = BenchmarkIndex(pq.read_table(suite.path))
            table = measurable(options, Path(base.path), None, temporary / "unanswered.parquet", index)
            write_table(table, temporary / FILE)
    table = pq.read_table(folder / FILE)
    return Pool(
        source, options, {problem_digest(problem.text): problem for problem in reversed(given)}, table, folder.name
    )
