"""Measure the searches that compare problems on ``labelled_problems.yaml``; ``python -m perf.targets``.

``embedding`` prints which forms of a problem a model of the user's recognizes, and which other problems it takes for
the same, at several thresholds. ``benchmark-search`` prints which forms of a problem the search without a model finds,
and counts the problems of the user's files that it refuses.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import yaml
from rapidfuzz.distance import Levenshtein

from core.errors import InputError
from core.schemas import BENCHMARK
from core.text.patterns import compile_quick_pattern
from grading.contamination import BenchmarkIndex
from targets.config import build_config
from targets.embedding.embedding_client import Embedder
from targets.embedding.embedding_settings import EmbeddingSettings
from targets.embedding.similarity import BenchmarkVectors, similar_before
from targets.filter.filter_memo import Memory
from targets.filter.meaning import open_meaning
from targets.read.sources import read_source

if TYPE_CHECKING:
    import numpy as np

FILE = Path(__file__).with_suffix(".yaml")
SAME, OTHER = ("light", "paraphrase", "translation"), ("other_numbers", "other_question")
THRESHOLDS = (95, 90, 85, 80, 75, 70, 60, 50)
DROPPED = 7  # every seventh word
PRINTED = 160  # characters of a problem

_NUMBER = compile_quick_pattern(r"\d+")
_WORD = compile_quick_pattern(r"[^\W_]+")


@cache
def labelled_problems() -> list[dict[str, str]]:
    """The rows of the file: a problem, its gold answer, and its other forms."""
    return [{name: str(text) for name, text in row.items()} for row in yaml.safe_load(FILE.read_text("utf-8"))]


def measure_embedding(settings: EmbeddingSettings) -> None:
    """Print, for each threshold, the share of each form that counts as the same problem, with and without numbers."""
    forms = (*SAME, *OTHER)
    print(f"{settings.name}: share of {len(labelled_problems())} problems that count as the same, in percent")
    print(f"{'':24}{''.join(f'{form:>16}' for form in forms)}{'any other':>12}")
    with open_meaning(settings, None, Memory()) as meaning, Embedder(meaning.endpoint) as embedder:
        vectors = {name: embedder.vectors(column(name)) for name in ("problem", *forms)}
    for threshold in THRESHOLDS:
        duplicates = [f"{100 * duplicate_share(form, vectors, threshold):15.0f}%" for form in forms]
        print(f"semantic_duplicate    {threshold}{''.join(duplicates)}")
        shares = [benchmark_shares(form, vectors, threshold) for form in forms]
        others = sum(wrong for _, wrong in shares) / len(shares)
        print(
            f"paraphrased_benchmark {threshold}{''.join(f'{100 * s:15.0f}%' for s, _ in shares)}{100 * others:11.1f}%"
        )


def column(name: str) -> list[str]:
    """One form of all problems."""
    return [row[name] for row in labelled_problems()]


def duplicate_share(form: str, vectors: "dict[str, np.ndarray]", threshold: float) -> float:
    """The share of problems that are merged with their ``form``, which has the same gold answer."""
    import numpy as np

    merged = 0
    for number, row in enumerate(labelled_problems()):
        pair = np.stack([vectors["problem"][number], vectors[form][number]])
        merged += any(similar_before([row["problem"], row[form]], pair, 1, 2, threshold))
    return merged / len(labelled_problems())


def benchmark_shares(form: str, vectors: "dict[str, np.ndarray]", threshold: float) -> tuple[float, float]:
    """The shares of the ``form`` of the problems for which its own problem, and another one, is found."""
    rows = [{"benchmark": "b", "id": str(n), "problem": text} for n, text in enumerate(column("problem"))]
    matches = BenchmarkVectors(rows, vectors["problem"], threshold).match(column(form), vectors[form])
    found = [match.number == number for number, match in enumerate(matches) if match]
    return sum(found) / len(rows), (len(found) - sum(found)) / len(rows)


def measure_benchmark_search(sources: Sequence[Path], benchmarks: Path | None, key: str) -> None:
    """Print the share of each form that the search without a model finds.

    Args:
        sources: files or folders of problems, of which it prints what is refused.
        benchmarks: file or folder of the benchmark problems for which it is refused.
        key: the column of the problems.
    """
    index = _index("labelled", column("problem"))
    print(f"share of {len(column('problem'))} problems whose other form is found, in percent")
    for name, texts in edited_forms():
        print(f"  {name:34}{100 * sum(index.match(text) is not None for text in texts) / len(texts):4.0f}%")
    if benchmarks is None:
        return
    index = _index(benchmarks.stem, read_column(benchmarks, key))
    for source in sources:
        _print_refused(source, read_column(source, key), index)


def _index(name: str, problems: Sequence[str]) -> BenchmarkIndex:
    import pyarrow as pa

    rows = [{"benchmark": name, "id": str(number), "problem": text} for number, text in enumerate(problems)]
    return BenchmarkIndex(pa.Table.from_pylist(rows, schema=BENCHMARK))


def read_column(path: Path, key: str) -> list[str]:
    """The problems of a file or folder, each once, whatever else is in it; InputError if there are none."""
    mapping = {"problem": key, "answer": key, "response": key}
    traces = read_source(build_config({"source": str(path), "mapping": mapping}))
    problems = list(dict.fromkeys(trace.problem for trace in traces if trace.problem))
    if not problems:
        raise InputError(f"{path}: no problem in the column {key!r}; name another column with --column")
    return problems


def edited_forms() -> Iterator[tuple[str, list[str]]]:
    """The forms of the labelled problems, by their description: those of the file, and edits made by rule."""
    random, problems = Random(0), column("problem")
    yield "other case, blanks and delimiters", [f"\\[ {text.upper().replace('. ', '.  ')} \\]" for text in problems]
    yield "a short instruction before", [f"Solve the following problem. {text}" for text in problems]
    yield "a few words differ", column("light")
    yield "one number is another", [_with_other_number(text, random) for text in problems]
    yield "every seventh word is missing", [_without_words(text) for text in problems]
    yield "paraphrase", column("paraphrase")
    yield "translation", column("translation")
    yield "the same story, other numbers", column("other_numbers")
    yield "another question, the same numbers", column("other_question")


def _with_other_number(text: str, random: Random) -> str:
    match = random.choice(list(_NUMBER.finditer(text)))
    return f"{text[: match.start()]}{int(match.group()) + random.randint(1, 9)}{text[match.end() :]}"


def _without_words(text: str) -> str:
    return " ".join(word for number, word in enumerate(text.split(), start=1) if number % DROPPED)


def _print_refused(source: Path, problems: Sequence[str], index: BenchmarkIndex) -> None:
    """Print how many problems are refused, and those that differ in more than a word or a number."""
    matches = [(problem, match) for problem in problems if (match := index.match(problem))]
    resemble = [(problem, match) for problem, match in matches if edits(problem, match.problem) > 1]
    print(f"{source}: {len(problems):,} problems, {len(matches):,} refused ({len(matches) / len(problems):.2%})")
    print(f"  the same, or another word or number: {len(matches) - len(resemble):,}")
    print(f"  more words differ: {len(resemble):,} ({len(resemble) / len(problems):.2%}); judge them yourself:")
    for problem, match in resemble:
        print(f"    {match.benchmark}/{match.id}: {match.problem[:PRINTED]!r}\n      {problem[:PRINTED]!r}")


def edits(first: str, second: str) -> int:
    """The words and numbers that have to be inserted, removed or replaced to turn one text into the other."""
    return Levenshtein.distance(_WORD.findall(first.lower()), _WORD.findall(second.lower()))
