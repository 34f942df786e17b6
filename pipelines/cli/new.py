"""``luffy new``: look at a file of traces, and write the profile that trains on it and proves what was learned."""

import json
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from math import ceil
from pathlib import Path
from textwrap import shorten
from typing import Any

import yaml

from core.errors import InputError, validated
from core.files import write_text
from core.model.base_model import SHIPPED
from core.parquet import read_shards
from core.settings import HERE, Layer, Section, profile_layers, resolve
from core.text.parse import parse_yaml
from core.text.patterns import compile_full_match
from grading.tools.settings import ToolSettings
from grading.verifiers.spec import PYTHON, parse_spec
from targets.prepare import prepare
from targets.prepared_files import Prepared, column_texts, hint_texts, read_example
from targets.read.sources import read_source
from targets.settings import TargetSettings
from targets.source_settings import ColumnMapping
from targets.trace import Trace

HELDOUT, VERIFIER, BASE = "heldout.jsonl", "verifier.py", "shared/learn"  # two files, and a profile
SHOWN, READ = 3, 200  # traces that are shown, and read to choose a verifier
LONGEST = 70  # characters of a text that is shown
FEWEST = 30  # questions; of fewer, the held-out ones could not prove a gain
SHARE, MOST = 6, 100  # one question of six is held out, and never more than so many
CONTEXT = 512  # tokens of a prompt, and of a response: together what the model can read
ROOM, STEP, LEAST = 1.25, 32, 160  # of the longest text; tokens, to which limits are rounded up; as in the base
EXPECTED = r"an answer, and a response that reasons and then gives it in \boxed{} (or elsewhere: docs/verifiers.md)"
NUMBER = compile_full_match(r"[-+]?[\d.,]+%?")
HEADER = "# Trains the model of the demo to answer as the traces do, and scores it on questions that it never saw.\n"
STUB = r'''"""Your verifier: how good is an answer?"""

import re


def score(data_source, solution_str, ground_truth, extra_info=None):
    """Return 1.0 for a right response, 0.0 for a wrong one, and what lies between for one that is partly right."""
    boxes = re.findall(r"\\boxed\{(.*?)\}", solution_str.rpartition("</think>")[2])
    return float(bool(boxes) and boxes[-1].strip() == ground_truth.strip())
'''


class Tried(Section):
    """The sections that are tried here."""

    targets: TargetSettings
    tools: ToolSettings | None = None


def new(file: Path, verifier: str | None, mapping: str | None, tools: str | None) -> Iterator[str]:
    """Write `HERE`, `HELDOUT` and, for the verifier ``python``, `VERIFIER` into the current folder; say what they have.

    Args:
        file: The traces.
        verifier: The verifier of their answers as YAML; ``python`` stands for one that is written here. None: numbers
            are compared as mathematics, and everything else as text.
        mapping: The columns of the file as YAML, or the name of a ready mapping. None: they are recognised.
        tools: The tools that the traces call, as YAML.

    Raises:
        InputError: The file cannot be read, too few of its traces can be used, or one of the files exists.
    """
    files = {HERE: "", HELDOUT: "", **({VERIFIER: STUB} if verifier == PYTHON else {})}
    if there := [name for name in files if Path(name).exists()]:
        raise InputError(f"{', '.join(there)}: already here; go to an empty folder, or move it away")
    columns = parse_yaml(mapping, "--mapping") if mapping else None
    if isinstance(columns, dict):
        validated(ColumnMapping, columns, "--mapping: ", "; expected {problem: …, answer: …, response: …}")
    source: dict[str, Any] = {"path": str(file), **({"mapping": columns} if columns else {})}
    # The chat template of the model shows no tools, so calls are written as tags.
    calls = {"tools": {"use": parse_yaml(tools, "--tools"), "format": "tags"}} if tools else {}
    with tempfile.TemporaryDirectory() as folder:
        first = list(islice(read_source(_settings(source, calls).targets, tools=bool(calls)), READ))
        spec = _verifier(verifier, first, Path(folder))
        tried = _settings(source | {"verifier": spec}, calls)
        prepared = prepare(tried.targets, Path(folder) / "targets", tokenizer_json=SHIPPED, tools=tried.tools)
        yield from column_texts(prepared)
        for one in first[:SHOWN]:
            shown = [shorten(part or "", LONGEST, placeholder="…") for part in (one.problem, one.gold, one.response)]
            yield "  {} -> {}: {}".format(*shown)
        yield from _counts(prepared, spec)
        heldout, lengths = _hold_out(prepared, file), _lengths(prepared)
    source["verifier"] = {"type": PYTHON, "path": f"{VERIFIER}:score"} if verifier == PYTHON else spec
    files[HELDOUT] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in heldout)
    profile = _profile(source, lengths) | calls
    files[HERE] = HEADER + yaml.safe_dump(profile, sort_keys=False, allow_unicode=True)
    for name, text in files.items():
        write_text(text, Path(name))
    yield f"wrote {', '.join(files)}: the profile of this folder, and {len(heldout)} questions that it holds out"
    yield "what next: luffy run"


def _settings(source: Mapping[str, Any], calls: Mapping[str, Any]) -> Tried:
    """Return the settings of the profile for a preparation of ``source``, with room for all that its model can read."""
    limits = {"max_prompt_tokens": CONTEXT, "max_target_tokens": CONTEXT}
    mine = Layer("luffy new", {"targets": {"source": [source], **limits}, **calls}, Path.cwd())
    return resolve(Tried, [*profile_layers(BASE, "base"), mine])


def _verifier(text: str | None, traces: Sequence[Trace], folder: Path) -> Any:
    """Return the verifier that ``text`` names, or else the one that fits the answers of ``traces``."""
    if text == PYTHON:
        write_text(STUB, folder / VERIFIER)
        return {"type": PYTHON, "path": f"{folder / VERIFIER}:score"}
    if text is not None:
        parse_spec(spec := parse_yaml(text, "--verifier"), "--verifier")
        return spec
    golds = [trace.gold for trace in traces if trace.gold]
    return "math" if golds and all(NUMBER(gold) for gold in golds) else "exact"


def _counts(prepared: Prepared, verifier: Any) -> Iterator[str]:
    name = verifier if isinstance(verifier, str) else verifier["type"]
    yield f"{prepared.counts['kept']:,} of {prepared.counts['read']:,} traces pass the verifier {name} and the filters"
    for step in prepared.filter_counts:
        if step["removed"]:
            yield f"  {step['removed']:,}: {step['title']}.{read_example(prepared.rejected, step['filter'])}"
    yield from hint_texts(prepared)


def _hold_out(prepared: Prepared, file: Path) -> list[dict[str, str]]:
    """Draw questions with their gold answers for the benchmark."""
    rows = read_shards(prepared.prepared).to_pylist()
    golds = {row["prompt"][-1]["content"]: row["reward_model"]["ground_truth"] for row in rows}
    if len(golds) < FEWEST:
        raise InputError(f"{file}: {len(golds)} questions can be used; expected {FEWEST} or more, each with {EXPECTED}")
    drawn = random.Random(0).sample(sorted(golds), min(MOST, len(golds) // SHARE))
    return [{"problem": problem, "gold": golds[problem]} for problem in drawn]


def _lengths(prepared: Prepared) -> tuple[int, int]:
    """Return the limits of prompts and of responses, in tokens."""
    longest = read_shards(prepared.profile, columns=["prompt_tokens", "target_tokens"]).to_pydict().values()
    prompt, response = (max(ceil(ROOM * max(tokens) / STEP) * STEP, LEAST) for tokens in longest)
    return prompt, response


def _profile(source: Mapping[str, Any], lengths: tuple[int, int]) -> dict[str, Any]:
    prompt, response = lengths
    benchmark = {"name": "heldout", "group": "evals", "title": "Held-out questions", "held_out": True}
    questions = {"file": HELDOUT, "columns": {"problem": "problem", "gold": "gold"}}
    return {
        "base": BASE,
        "storage": {"root": "outputs"},
        "targets": {"source": [source], "max_prompt_tokens": prompt, "max_target_tokens": response},
        "suite": {"benchmarks": [{**benchmark, "verifier": deepcopy(source["verifier"]), "sources": [questions]}]},
        "benchmarks": {"roots": ["."]},
        "training": {"config": {"data": {"max_prompt_length": prompt, "max_response_length": response}}},
        "evaluation": {"max_tokens": response},
    }
