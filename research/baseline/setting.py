"""What all trainings of the audit share: the targets, the size of an update, and the optimizer."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from core.arithmetic import problems
from core.model.episodes import Example, encode_example
from core.schemas import TARGET

ROWS, RUN = 128, 4


@dataclass(frozen=True)
class Setting:
    """One training: AdamW without weight decay, at a constant learning rate, on the rows of a file in their order.

    Args:
        steps: updates.
        batch: rows per update, over all ranks.
        clip: largest gradient norm.
    """

    steps: int = 50
    batch: int = 32
    lr: float = 1e-4
    clip: float = 1.0

    def batches(self, examples: list[Example]) -> list[list[Example]]:
        """Return the rows of each update."""
        starts = (step * self.batch % len(examples) for step in range(self.steps))
        return [examples[start : start + self.batch] for start in starts]


class Cut(NamedTuple):
    """How an update is cut: into ``accumulation`` micro-batches on each of ``ranks``, packed into one row or padded."""

    accumulation: int = 1
    ranks: int = 1
    packed: bool = False

    def __str__(self) -> str:
        form = "packed" if self.packed else "padded"
        return f"{self.accumulation} x {self.ranks} {'rank' if self.ranks == 1 else 'ranks'}, {form}"


class Request(NamedTuple):
    """What a program of the audit is asked for, as JSON; its results go to the folder ``out``."""

    targets: str
    model: str
    out: str
    cut: Cut
    setting: Setting

    def write(self, file: Path) -> Path:
        file.write_text(json.dumps([*self[:3], self.cut, asdict(self.setting)]), encoding="utf-8")
        return file

    @classmethod
    def read(cls, file: str) -> "Request":
        targets, model, out, cut, setting = json.loads(Path(file).read_text(encoding="utf-8"))
        return cls(targets, model, out, Cut(*cut), Setting(**setting))

    def examples(self) -> list[Example]:
        """Return the tokens of the rows, as the product encodes them."""
        from transformers import AutoTokenizer

        tokenizer: Any = AutoTokenizer.from_pretrained(self.model)
        table = pq.read_table(self.targets, columns=["prompt", "target"])
        rows = zip(table["prompt"].to_pylist(), table["target"].to_pylist(), strict=True)
        return [encode_example(prompt, target[0]["content"], tokenizer) for prompt, target in rows]


def write_targets(file: Path) -> Path:
    """Write targets in which runs of long rows (worked sums) and of short ones (an answer alone) take turns."""
    long = [problem for problem in problems("train", 20 * ROWS, 0) if len(problem.trace) > 65]
    short = [replace(problem, trace=f"\\boxed{{{problem.answer}}}") for problem in problems("short", ROWS, 0)]
    turns = [part[start : start + RUN] for start in range(0, ROWS // 2, RUN) for part in (long, short)]
    mixed = [problem for turn in turns for problem in turn]
    rows = [
        {
            "data_source": "arithmetic",
            "prompt": [{"role": "user", "content": problem.problem}],
            "target": [{"role": "assistant", "content": problem.trace}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {"split": "train", "index": index, "id": problem.id, "source": "audit"},
        }
        for index, problem in enumerate(mixed)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=TARGET), file)
    return file
