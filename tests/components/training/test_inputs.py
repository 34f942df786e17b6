"""What a run refuses before anything starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.model.base_model import SHIPPED
from core.model.lineage_file import InputRecord, TargetsRecord
from core.model.token_counts import load_lengths
from core.schemas import TARGET, TARGET_LOG_PROBS
from training.config.to_verl import compose_run
from training.job.input_checks import check_context, check_targets

LIMITS = ("data.train_batch_size=2", "data.max_prompt_length=64", "data.max_response_length=32")
Row = dict[str, Any]


def row(number: int) -> Row:
    return {
        "data_source": "test",
        "prompt": [{"role": "user", "content": f"{number}+1=?"}],
        "target": [{"role": "assistant", "content": f"<think>\n1\n</think>\n\n\\boxed{{{number + 1}}}"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(number + 1)},
        "extra_info": {"split": "train", "index": number, "id": str(number), "source": "test"},
    }


def checked(file: Path, rows: list[Row], metadata: dict[str, str] | None = None) -> TargetsRecord:
    pq.write_table(pa.Table.from_pylist(rows, schema=TARGET.with_metadata(metadata)), file)
    return check(file)


def check(file: Path) -> TargetsRecord:
    config = compose_run("luffy", "cpu", LIMITS, run=file.parent)
    return check_targets(InputRecord(path=file, digest="d"), SHIPPED, config)


def test_targets_within_the_limits_pass(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    assert checked(file, [row(1), row(2)]) == TargetsRecord(path=file, digest="d", rows=2, metadata={})


def longer(limit: int) -> Callable[[Row], Row]:
    """A target whose text has ``limit`` bytes, which are its tokens."""

    def change(changed: Row) -> Row:
        text = changed["target"][0]["content"]
        return changed | {"target": [{"role": "assistant", "content": "x" * (limit - len(text)) + text}]}

    return change


def test_a_target_may_fill_the_response_with_its_end_token(tmp_path: Path) -> None:
    checked(tmp_path / "t.parquet", [row(1), longer(31)(row(2))])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            longer(32), r"row 1: its target has 33 tokens .*more than data.max_response_length=32", id="target"
        ),
        pytest.param(
            lambda r: r | {"prompt": [{"role": "user", "content": "9" * 99}]},
            r"row 1: its prompt has \d+ tokens .*more than data.max_prompt_length=64",
            id="prompt",
        ),
        pytest.param(lambda r: r | {"prompt": []}, "row 1: prompt is not a list", id="no prompt"),
        pytest.param(lambda r: r | {"target": [None]}, "row 1: target is not a list", id="no message"),
        pytest.param(
            lambda r: r | {"target": [{"role": "assistant", "content": None}]}, "row 1: target is not", id="null"
        ),
        pytest.param(
            lambda r: r | {"reward_model": {"style": "rule", "ground_truth": " "}},
            "ground_truth is ' '",
            id="no answer",
        ),
        pytest.param(lambda r: r | {"reward_model": None}, "row 1: .*ground_truth is None", id="no reward model"),
    ],
)
def test_a_row_that_cannot_be_trained_on_is_named(tmp_path: Path, change: Callable[[Row], Row], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        checked(tmp_path / "t.parquet", [row(1), change(row(2))])


@pytest.mark.parametrize(("gold", "expected"), [(13, "is 13, expected"), (["1", "2"], r"is \['1', '2'\], expected")])
def test_a_gold_that_is_no_text_is_named_for_what_it_is(tmp_path: Path, gold: object, expected: str) -> None:
    rows = [row(number) | {"reward_model": {"style": "rule", "ground_truth": gold}} for number in (1, 2)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=f"row 0: reward_model.ground_truth {expected}"):
        check(tmp_path / "t.parquet")


def test_a_file_that_was_prepared_for_another_tokenizer_is_measured(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 1: its target"):
        checked(tmp_path / "t.parquet", [row(1), longer(32)(row(2))], {"tokenizer_digest": "of another"})


def prepared(file: Path, rows: list[Row], schema: pa.Schema = TARGET) -> None:
    """Write a file of which its preparation says that it checked the rows."""
    metadata = {"tokenizer_digest": load_lengths(SHIPPED).digest}
    metadata["config"] = '{"max_prompt_tokens": 1, "max_target_tokens": 1}'
    table = pa.Table.from_pylist(rows, schema=schema.with_metadata(metadata))
    with pq.ParquetWriter(file, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"rows_digest": "d"})


def test_a_copy_of_prepared_targets_is_checked_again(tmp_path: Path) -> None:
    file, copy = tmp_path / "t.parquet", tmp_path / "copy.parquet"
    prepared(file, [row(1), row(2), longer(32)(row(3)), row(4) | {"prompt": []}])
    assert check(file).rows == 4
    rows = pq.read_table(file)
    for chosen, expected in ([1, 2], "row 1: its target"), ([0, 3], "row 1: prompt is not a list"):
        pq.write_table(rows.take(chosen), copy)
        with pytest.raises(InputError, match=expected):
            check(copy)


def test_metadata_of_another_program_need_not_be_text(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    rows = pa.Table.from_pylist([row(1), row(2)], schema=TARGET.with_metadata({b"\xff": b"\xfe"}))
    pq.write_table(rows, file)
    assert check(file).rows == 2


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        pytest.param(lambda file: None, "no such file", id="absent"),
        pytest.param(lambda file: file.write_text("{}"), "not a readable parquet", id="not a parquet"),
        pytest.param(lambda file: pq.write_table(pa.table({"a": [1]}), file), "no column data_source", id="columns"),
        pytest.param(
            lambda file: pq.write_table(pa.Table.from_pylist([row(1)], schema=TARGET), file),
            "1 rows are less",
            id="few",
        ),
    ],
)
def test_a_file_that_cannot_be_trained_on_is_named(tmp_path: Path, write: Callable[[Path], Any], expected: str) -> None:
    file = tmp_path / "t.parquet"
    write(file)
    with pytest.raises(InputError, match=expected):
        check(file)


def test_a_run_that_needs_more_context_than_the_model_has_is_told_so(tmp_path: Path) -> None:
    fits = ["data.max_prompt_length=512", "data.max_response_length=512"]
    check_context(SHIPPED, compose_run("luffy", "cpu", fits, run=tmp_path))
    with pytest.raises(InputError, match=r"a context of 1024 tokens .* needs 1025.*max_prompt_length=513"):
        check_context(SHIPPED, compose_run("luffy", "cpu", ["data.max_prompt_length=513", fits[1]], run=tmp_path))


def with_log_probs(number: int, *, more: int = 0, value: float = -0.5) -> Row:
    """A target, and a log-probability for each of its tokens, its end token, and ``more``."""
    target = row(number)
    tokens = load_lengths(SHIPPED).count_examples([(target["prompt"], target["target"])])[0].target
    return target | {"target_log_probs": [value] * (tokens + more)}


def check_log_probs(file: Path, rows: list[Row], schema: pa.Schema | None = None) -> TargetsRecord:
    # The lengths were checked before: log-probabilities are checked all the same.
    prepared(file, rows, schema or TARGET.append(TARGET_LOG_PROBS))
    config = compose_run("luffy", "cpu", [*LIMITS, "method.off_policy.phi=recorded"], run=file.parent)
    return check_targets(InputRecord(path=file, digest="d"), SHIPPED, config)


def test_log_probabilities_of_every_token_pass(tmp_path: Path) -> None:
    no_target = row(3) | {"target": []}
    assert check_log_probs(tmp_path / "t.parquet", [with_log_probs(1), with_log_probs(2), no_target]).rows == 3


def test_log_probabilities_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    with pytest.raises(InputError, match=r"no column target_log_probs, which method\.off_policy\.phi=recorded reads"):
        check_log_probs(file, [row(1), row(2)], TARGET)
    with pytest.raises(InputError, match=r"7 rows have a target without target_log_probs: 1, 2, 3, 4, 5, …: give"):
        check_log_probs(file, [with_log_probs(0), *(row(n) for n in range(1, 8))])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (with_log_probs(2, more=1), r"row 1: 31 target_log_probs for a target of 30 tokens, its end token included"),
        (with_log_probs(2, more=-1), r"row 1: 29 target_log_probs for a target of 30 tokens"),
        (with_log_probs(2, value=0.1), r"row 1: target_log_probs must be finite numbers of at most 0"),
        (with_log_probs(2, value=float("nan")), r"row 1: target_log_probs must be finite"),
    ],
)
def test_log_probabilities_that_do_not_fit_name_the_row(bad: Row, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        check_log_probs(tmp_path / "t.parquet", [with_log_probs(1), bad])
