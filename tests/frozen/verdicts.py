"""Verdict and reason of the pairs that the tests list, of generated pairs, and of pairs of recorded answers."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Item

INPUTS = Path(__file__).resolve().parents[1] / "golden/frozen/inputs/verdicts.jsonl"
LIMIT_S = 30.0  # per comparison, so that a busy machine changes no verdict


def values() -> dict[str, Any]:
    rows = [json.loads(line) for line in INPUTS.read_text(encoding="utf-8").splitlines()]
    frozen = {}
    for spec, group in groupby(rows, key=lambda row: row[0]):
        with open_verifier(parse_spec(spec, "frozen"), workers=2, limit_s=LIMIT_S) as verifier:
            items = [Item(response, gold, fields) for _, gold, response, fields in group]
            grades = verifier.verify_many(items, thinking=False)
        for item, grade in zip(items, grades, strict=True):
            name = f"{json.dumps(spec)} {item.gold} ~~ {item.response} {json.dumps(item.fields)}"
            frozen[name.removesuffix(" {}")] = {"verdict": str(grade.verdict), "reason": grade.reason}
    return frozen
