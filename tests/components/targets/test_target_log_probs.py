"""Log probabilities of the teacher: kept where they are of the policy's tokens."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from preparing import rows, run

from core.schemas import TARGET
from targets.select.split import select_train


def test_log_probabilities_of_the_teacher_travel_to_the_training_file(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any
) -> None:
    digests = set()
    for last in (-1.0, -2.0):
        source = jsonl(good(1, target_log_probs=[-0.25, last]), good(2), good(3, answer="7", target_log_probs=[-1.0]))
        prepared = run(source, tmp_path / "out", tokenizer)
        split = select_train(prepared, tmp_path / "train")
        for file in (prepared.prepared, split.train):
            assert pq.read_schema(file).names == [*TARGET.names, "target_log_probs"]
            assert [row["target_log_probs"] for row in rows(file)] == [[-0.25, last], None]
        digests.add(split.digest)
    assert len(digests) == 2
    again = run(split.train, tmp_path / "again", tokenizer)  # what was written is a source, too
    assert rows(again.prepared)[0]["target_log_probs"] == [-0.25, -2.0]


def test_log_probabilities_are_kept_where_they_are_of_the_policys_tokens(
    jsonl: Any, good: Any, tokenizer: Path, tmp_path: Path
) -> None:
    """The tokenizer has a token per byte, so that the tokens of a target are easily written down."""
    from core.model.token_counts import load_lengths

    lengths = load_lengths(tokenizer)

    def drawn(k: int, response: str | None = None, **changes: Any) -> dict[str, Any]:
        row = good(k, **({"response": response} if response else {}))
        ids = [*lengths.tokenizer.encode(row["response"], add_special_tokens=False).ids, 2]  # <|im_end|>
        return {**row, "target_token_ids": ids, "target_log_probs": [-0.5] * len(ids), **changes}

    rewritten = "<think>Twice 3 is 6.</think>So \\boxed{6}."  # its markers get blanks around them
    other = drawn(2) | {"target_token_ids": [token + 1 for token in drawn(2)["target_token_ids"]]}
    short = drawn(4, target_log_probs=[-0.5])
    source = jsonl(drawn(1), other, drawn(3, rewritten), short, good(5), drawn(6, finish_reason="length"))
    prepared = run(source, tmp_path / "out", tokenizer)
    kept = {row["extra_info"]["id"]: row["target_log_probs"] for row in rows(prepared.prepared)}
    assert [(kept[f"traces.jsonl:{k}"] or None) is not None for k in range(5)] == [True, False, False, False, False]
    assert len(kept["traces.jsonl:0"]) == len(drawn(1)["target_token_ids"])
    assert prepared.log_probs == {"with": 1, "without": 4} and prepared.counts["unclosed"] == 1
    required = run(source, tmp_path / "required", tokenizer, require_log_probs=True)
    assert required.counts == {"read": 6, "kept": 1, "no_log_probs": 4, "unclosed": 1}
    again = [f"traces.jsonl:{k}" for k in (1, 2, 3, 4)]
    assert [row["id"] for row in rows(required.rejected) if row["reason"] == "no_log_probs"] == again
