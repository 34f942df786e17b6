"""Verdicts on tables of samples, each by the verifier that its row of the suite names."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.files import digest_bytes
from core.model.prompts import PromptRecord, must_end_thoughts
from grading.row_fields import row_fields
from grading.verifiers.spec import VerifierSpec, open_verifier, read_spec
from grading.verifiers.verifier import Item, Verifier

if TYPE_CHECKING:
    import pyarrow as pa


DECISIVE = ("id", "problem", "gold", "alternatives", "fields")  # columns of a suite that say which problems it has


class Verifiers(ExitStack):
    """Verifiers by their spec, each opened when it is needed first. A context manager that closes them.

    ``workers`` and ``limit_s`` are arguments of `open_verifier`.
    """

    def __init__(self, workers: int = 2, limit_s: float = 5.0) -> None:
        super().__init__()
        self._workers, self._limit_s = workers, limit_s
        self._open: dict[VerifierSpec, Verifier] = {}

    def of(self, spec: VerifierSpec) -> Verifier:
        """Return the verifier of a spec; InputError if what it names is missing."""
        if spec not in self._open:
            self._open[spec] = self.enter_context(open_verifier(spec, workers=self._workers, limit_s=self._limit_s))
        return self._open[spec]


def grade_table(
    samples: "pa.Table",
    suite: "pa.Table",
    verifiers: Verifiers,
    *,
    thinking: bool | None = None,
    truncated: str = "zero",
) -> "pa.Table":
    """Return the GRADED table of a SAMPLE table of one benchmark, with the same rows in the same order.

    With ``thinking`` an answer counts only after ``</think>``; None leaves that to the prompt template of the samples.
    In an episode that may call tools, that holds for a last turn that thinks, as it does in training.
    Of several right answers any one counts; ``gold`` is the one that the response gives, or else the first. A sample
    that was cut at the token limit scores 0; with ``truncated="by_text"`` its text decides, as for any other.
    Raises InputError for a verifier that does not exist, and if the samples do not cover the problems of the suite
    equally, because a missing row would change the score; samples until decided are of some problems by design.
    """
    import pyarrow as pa

    from core.schemas import GRADED, TURNS

    rows, problems = samples.to_pylist(), problems_of(samples, suite)
    name = rows[0]["benchmark"]
    specs = {text: read_spec(text, f"suite, {name}") for text in {p["verifier"] for p in problems.values()}}
    needs_end = PromptRecord.of(samples).thinking if thinking is None else thinking
    items = _items(rows, problems, thinking=needs_end, zero_if_cut=truncated == "zero")
    grades = {
        (text, thinks): iter(verifiers.of(specs[text]).verify_many(asked, thinking=thinks))
        for (text, thinks), asked in items.items()
    }
    graded = []
    for row in rows:
        problem = problems[row["id"]]
        answers = grades[problem["verifier"], _thinks(row, needs_end)]
        by_gold = [(gold, next(answers)) for gold in _golds(problem)]
        gold, grade = max(by_gold, key=lambda pair: pair[1].score)  # the first where none is right
        graded.append(
            {
                **row,
                "gold": gold,
                "extracted": grade.extracted,
                "verdict": str(grade.verdict),
                "reason": grade.reason,
                "subject": problem["subject"],
                "score": grade.score,
            }
        )
    verified = {text: specs[text].digest for text in sorted(specs)}
    metadata = {
        **(samples.schema.metadata or {}),
        b"grading": json.dumps(
            {
                "thinking": needs_end,
                "truncated": truncated,
                "verifiers": verified,
                "problems": digest_problems(problems),
            }
        ),
    }
    schema = GRADED.append(TURNS) if TURNS.name in samples.column_names else GRADED
    return pa.Table.from_pylist(graded, schema=schema.with_metadata(metadata))


def problems_of(samples: "pa.Table", suite: "pa.Table") -> dict[str, dict[str, Any]]:
    """Return the rows of a suite that a SAMPLE table of one benchmark answers, by id.

    Raises InputError if the suite lacks the benchmark, or if the samples do not cover its problems equally; samples
    until decided are of some problems by design.
    """
    from core.schemas import is_sequential

    names = samples["benchmark"].unique().to_pylist()
    if len(names) != 1:
        raise InputError(f"samples of {', '.join(sorted(names)) or 'no benchmark'}: expected rows of exactly one")
    problems = {row["id"]: row for row in suite.to_pylist() if row["benchmark"] == names[0]}
    if not problems:
        benchmarks = ", ".join(suite["benchmark"].unique().to_pylist())
        raise InputError(
            f"samples of {names[0]}: not in the suite, which has {benchmarks}; give the suite of the samples"
        )
    _require_all(samples.select(["id", "sample"]).to_pylist(), problems, names[0], equally=not is_sequential([samples]))
    return problems


def digest_problems(problems: dict[str, dict[str, Any]]) -> str:
    """Digest what a benchmark asks and which answers are right, whatever the order of its rows."""
    rows = [[problems[key].get(column) for column in DECISIVE] for key in sorted(problems)]
    return digest_bytes(json.dumps(rows).encode())


def _golds(problem: dict[str, Any]) -> list[str]:
    """Return the right answers to a problem, of which any counts."""
    return [problem["gold"], *(problem["alternatives"] or ())]


def _thinks(row: dict[str, Any], thinking: bool) -> bool:
    """Return whether the answer of a sample counts only after its thoughts."""
    return thinking and must_end_thoughts(row["response"], is_episode=row.get("turns") is not None)


def _items(
    rows: Sequence[dict[str, Any]], problems: dict[str, dict[str, Any]], *, thinking: bool, zero_if_cut: bool
) -> dict[tuple[str, bool], list[Item]]:
    """Collect the items for each verifier, by its spec and whether answers count only after thoughts.

    One item per sample and right answer, in the order of rows.
    """
    from core.schemas import FIELDS

    items: dict[tuple[str, bool], list[Item]] = defaultdict(list)
    for row in rows:
        problem = problems[row["id"]]
        cut = zero_if_cut and row["finish_reason"] == "length"
        fields = row_fields(problem["benchmark"], problem["problem"], problem.get(FIELDS.name))
        for gold in _golds(problem):
            items[problem["verifier"], _thinks(row, thinking)].append(Item(row["response"] or "", gold, fields, cut))
    return items


def verifier_digests(suite: "pa.Table", benchmark: str) -> list[str]:
    """Return the digests of the verifiers of a benchmark, which its verdicts depend on."""
    import pyarrow.compute as pc

    texts = suite.filter(pc.field("benchmark") == benchmark)["verifier"].unique().to_pylist()
    return sorted(read_spec(text, f"suite, {benchmark}").digest for text in texts)


def _require_all(rows: list[dict[str, Any]], problems: dict[str, Any], name: str, *, equally: bool) -> None:
    """Raise InputError unless ``rows`` are samples of the ``problems``, and ``equally`` as many of each."""
    counts = Counter(row["id"] for row in rows)
    if twice := len(rows) - len({(row["id"], row["sample"]) for row in rows}):
        raise InputError(f"samples of {name}: {twice} rows repeat a sample of the same problem; generate them again")
    covered = counts.keys() == problems.keys() and len(set(counts.values())) == 1
    if not covered and (equally or not counts.keys() <= problems.keys()):
        raise InputError(
            f"samples of {name}: {len(rows)} rows over {len(counts)} problems do not cover the "
            f"{len(problems)} problems of the suite equally; generate them again with this suite"
        )
