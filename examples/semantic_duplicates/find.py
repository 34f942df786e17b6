"""Find problems with the same meaning by an embedding model, and refuse all but the first in a review.

An embedding model hardly sees a number: "3 apples and 4 more" and "2 apples and 5 more" are alike for it. So two
problems are the same only if their gold answers and their numbers agree, too.
"""

import argparse
import csv
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import openai
import pyarrow.parquet as pq

from core.parquet import read_shards
from targets.files import PREPARED

BATCH = 64  # problems per request
LONGEST = 2000  # characters of a problem that the model reads
WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBER_OF = {word: str(number) for number, word in enumerate(WORDS, start=2)}


def numbers(problem: str) -> set[str]:
    """Return the numbers of a problem, also those of one word.

    >>> sorted(numbers("Two of the 1,200 sheep weigh 3.5 kg"))
    ['1200', '2', '3.5']
    """
    tokens = re.findall(r"\d+(?:,\d\d\d)*(?:\.\d+)?|[a-z]+", problem.lower())
    return {
        NUMBER_OF.get(token, token.replace(",", "")) for token in tokens if token[0].isdigit() or token in NUMBER_OF
    }


def embed(client: openai.OpenAI, model: str, problems: Sequence[str], prefix: str = "") -> np.ndarray:
    """Return the vectors of ``problems``, each of length 1; shape (problems, size)."""
    texts = [prefix + problem[:LONGEST] for problem in problems]
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    answers = [client.embeddings.create(model=model, input=batch, encoding_format="float") for batch in batches]
    rows = [entry.embedding for answer in answers for entry in sorted(answer.data, key=lambda entry: entry.index)]
    vectors = np.array(rows, np.float32).reshape(len(texts), -1)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def same_meaning(
    problems: Sequence[str], golds: Sequence[str], vectors: np.ndarray, threshold: float
) -> Iterator[tuple[int, int, float]]:
    """Yield (number of a problem, that of the first one which it repeats, similarity in percent).

    Args:
        golds: the gold answers; only problems with the same one are compared.
        vectors: of length 1; shape (problems, size).
        threshold: the least similarity, 100 times the cosine.
    """
    groups: defaultdict[tuple[str, frozenset[str]], list[int]] = defaultdict(list)
    for number, (problem, gold) in enumerate(zip(problems, golds, strict=True)):
        first = groups[gold, frozenset(numbers(problem))]
        similar = 100 * vectors[first] @ vectors[number] if first else np.empty(0)
        if len(similar) and similar.max() >= threshold:
            yield number, first[int(similar.argmax())], float(similar.max())
        else:
            first.append(number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", type=Path, help="folder that `luffy targets` wrote")
    parser.add_argument("--url", required=True, help="OpenAI-compatible endpoint, such as http://localhost:8000/v1")
    parser.add_argument("--model", required=True, help="name of the model at the endpoint")
    parser.add_argument("--threshold", type=float, required=True, help="100 times the cosine")
    parser.add_argument("--prefix", default="", help="text before each problem, such as 'query: '")
    parser.add_argument(
        "--benchmarks", type=Path, help="problems of benchmarks (parquet: id, problem) to stay away from"
    )
    parser.add_argument("--out", type=Path, default=Path("review.csv"))
    options = parser.parse_args()

    rows = read_shards(options.targets / PREPARED, columns=["prompt", "reward_model", "extra_info"]).to_pylist()
    ids = [row["extra_info"]["id"] for row in rows]
    problems = [row["prompt"][-1]["content"] for row in rows]
    golds = [row["reward_model"]["ground_truth"] for row in rows]
    client = openai.OpenAI(base_url=options.url, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    vectors = embed(client, options.model, problems, options.prefix)
    refused = {
        number: f"{similarity:.1f}% similar in meaning to {ids[first]}"
        for number, first, similarity in same_meaning(problems, golds, vectors, options.threshold)
    }
    if options.benchmarks:
        names, texts = pq.read_table(options.benchmarks).select(["id", "problem"]).to_pydict().values()
        similar = 100 * vectors @ embed(client, options.model, texts, options.prefix).T
        for number, column in np.argwhere(similar >= options.threshold).tolist():
            if numbers(problems[number]) == numbers(texts[column]):
                refused[number] = f"{similar[number, column]:.1f}% similar in meaning to {names[column]}"
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "decision", "reviewer", "note"])
        writer.writerows(
            [ids[number], "refuse", "semantic_duplicates", note] for number, note in sorted(refused.items())
        )
    print(f"{options.out}: {len(refused)} of {len(rows)} targets refused")


if __name__ == "__main__":
    main()
