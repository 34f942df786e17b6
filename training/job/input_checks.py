"""Check the targets and the model of a run before anything starts, because verl would only fail much later.

`run_files` gives the files that verl reads: the targets, or what a run takes of them.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import DictConfig

from core.errors import InputError
from core.files import digest_bytes, read_object, write_table
from core.model.lineage_file import InputRecord, TargetsRecord
from core.model.model_folder import check_model
from core.model.prompts import TEMPLATE_KWARGS
from core.model.token_counts import Counts, Lengths, load_lengths
from core.parquet import count_rows, read_batches, read_shards, readable, shards
from core.schemas import PASS_RATE, TARGET, TARGET_LOG_PROBS
from grading.tools.settings import ToolSettings, read_tools
from grading.verifiers.spec import VerifierSpec, parse_spec
from training.algorithms.derived_seeds import prompt_key
from training.algorithms.guide import ALWAYS, parse_schedule
from training.algorithms.prompt_order import EASY_FIRST, easy_first
from training.config.method_keys import of_run
from training.config.to_verl import chat_template
from training.job.request import ADVICE
from training.job.user_reward import MATH

VERIFIERS_KEY, TOOLS_KEY, ROWS_DIGEST = b"verifiers", b"tools", b"rows_digest"  # metadata of a file of targets
ROWS = 1024  # read and tokenized at a time
NAMED_ROWS = 5  # number of rows that one message names


def check_context(model: Path, config: DictConfig) -> None:
    """Raise InputError if ``model`` is not whole, or a prompt and a response of maximal length exceed its context."""
    check_model(model, kwargs=chat_template(config).kwargs)
    settings = read_object(model / "config.json")
    settings = settings | settings.get("text_config", {}) | dict(config.actor_rollout_ref.model.override_config)
    context = settings.get("max_position_embeddings")
    needed = config.actor_rollout_ref.rollout.max_model_len
    if not isinstance(context, int | None):
        raise InputError(f"model {model}: config.json: max_position_embeddings is {context!r:.80}; expected a number")
    if context is not None and needed > context:
        raise InputError(
            f"model {model}: a context of {context} tokens (max_position_embeddings), but the run needs {needed}: "
            f"lower data.max_prompt_length={config.data.max_prompt_length} or "
            f"data.max_response_length={config.data.max_response_length}, or extend its context (options "
            "model.max_position_embeddings and model.rope_theta of models/base)"
        )


def check_targets(targets: InputRecord, model: Path, config: DictConfig, least: int | None = None) -> TargetsRecord:
    """Check the parquet file of ``targets`` and return it with its number of rows and its schema metadata.

    The tokens of prompts and targets are counted with the tokenizer of ``model`` and compared with the limits of
    ``config``, unless the file is as its preparation wrote it, and its metadata says that the preparation did so.

    Args:
        least: rows that there must be; a batch by default.

    Raises:
        InputError: the file is missing or not a parquet; a column is missing or has another type; a row has no gold
            answer, or a prompt or target over its limit; there are fewer rows than one batch needs. The message names
            the row and the remedy.
    """
    path = targets.path
    with readable(path, ADVICE):
        schema = pq.read_schema(shards(path)[0])
        rows = count_rows(path)
    missing = [name for name in TARGET.names if name not in schema.names]
    if missing:
        raise InputError(
            f"targets {path}: no column {', '.join(missing)}; expected {', '.join(TARGET.names)}: "
            "prepare them with `luffy targets`"
        )
    if not pa.types.is_struct(kind := schema.field("extra_info").type):
        raise InputError(f"targets {path}: extra_info has the type {kind}, expected a struct, such as {{id, index}}")
    batch = config.data.train_batch_size
    if rows < (batch if least is None else least):
        raise InputError(f"targets {path}: {rows} rows are less than one batch of data.train_batch_size={batch}")
    read_verifiers(path)
    items = (schema.metadata or {}).items()  # another program's need not be text
    metadata = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in items}
    lengths = load_lengths(model, chat_template(config))
    limits = {"prompt": config.data.max_prompt_length, "target": config.data.max_response_length}
    # The digest of the rows is in the file's own metadata only: a copy with other rows keeps only the schema's.
    unchanged = ROWS_DIGEST in (pq.read_metadata(shards(path)[0]).metadata or {})
    measured = unchanged and _prepared_for(metadata, lengths, limits)
    log_probs = of_run(config).reads_target_probs
    if log_probs and TARGET_LOG_PROBS.name not in schema.names:
        raise InputError(
            f"targets {path}: no column {TARGET_LOG_PROBS.name}, which method.off_policy.phi=recorded reads: give the "
            "teacher's log-probability of each token of the target and its end token, or set it to one"
        )
    if log_probs or not measured:
        _check_rows(path, lengths, {} if measured else limits, log_probs=log_probs)
    kept = {key: value for key, value in metadata.items() if key not in ("ARROW:schema", "pandas")}
    return TargetsRecord(path=path, digest=targets.digest, rows=rows, metadata=kept)


def read_verifiers(targets: Path) -> dict[str, VerifierSpec]:
    """Return the verifier of each ``data_source`` in a file of ``targets``; mathematics if the file names none.

    Raises:
        InputError: a row is of a source without a verifier, or what a verifier reads outside of the project has
            changed since the targets were prepared.
    """
    sources = read_shards(targets, columns=["data_source"])["data_source"].unique().to_pylist()
    recorded = (pq.read_schema(shards(targets)[0]).metadata or {}).get(VERIFIERS_KEY)
    if recorded is None:
        return dict.fromkeys(sources, MATH)
    records = json.loads(recorded)
    if unknown := [name for name in sources if name not in records]:
        raise InputError(
            f"targets {targets}: no verifier for data_source {unknown[0]!r}: the file's metadata has verifiers of "
            f"{', '.join(records)}; prepare the targets again"
        )
    specs = {name: parse_spec(records[name]["verifier"], f"targets {targets}: verifier of {name}") for name in sources}
    if changed := [name for name, spec in specs.items() if spec.digest != records[name]["digest"]]:
        raise InputError(
            f"targets {targets}: the verifier of {changed[0]} has changed since the targets were prepared: a "
            "file or package that it reads has changed; prepare the targets again"
        )
    return specs


def read_target_tools(targets: Path) -> ToolSettings | None:
    """Return the tools of a file of targets; None without any, or without the file. Raises as `read_tools` does."""
    try:
        recorded = (pq.read_schema(shards(targets)[0]).metadata or {}).get(TOOLS_KEY)
    except (OSError, ValueError):
        return None  # `check_targets` says why
    return None if recorded is None else read_tools(recorded.decode(), f"targets {targets}")


def check_pass_rates(path: Path, config: DictConfig) -> None:
    """Raise InputError unless each row of the targets has the pass rate that ``config`` decides by."""
    if config.data.order == EASY_FIRST:
        reader = f"data.order={EASY_FIRST}"
        instead = "data.order=shuffle"
    elif parse_schedule(config.method.get("guide", ALWAYS)) is not None:
        reader = f"method.guide={config.method.guide}"
        instead = "method.guide=always"
    else:
        return
    name, schema = PASS_RATE.name, pq.read_schema(shards(path)[0])
    remedy = f"(targets/difficulty, or luffy evaluate difficulty), or set {instead}"
    if name not in schema.names or not pa.types.is_floating(schema.field(name).type):
        raise InputError(
            f"targets {path}: no column {name} of numbers, which {reader} reads: prepare the targets with the pass "
            f"rates of the base model {remedy}"
        )
    rates = read_shards(path, columns=[name])[name].to_pylist()
    absent = [row for row, rate in enumerate(rates) if rate is None or not 0 <= rate <= 1]
    if absent:
        raise InputError(
            f"targets {path}: {len(absent)} of {len(rates)} rows have no {name} from 0 to 1, which {reader} reads: row "
            f"{_named(absent)}: measure all problems {remedy}. targets.pass_rate=[0, 1] leaves out what was not "
            "measured"
        )


def check_several_targets(path: Path, config: DictConfig) -> None:
    """Raise InputError if a method wants all targets of a problem, and no problem has several."""
    if not of_run(config).all_targets:
        return
    prompts = read_shards(path, columns=["prompt"])["prompt"].to_pylist()
    if len(set(map(prompt_key, prompts))) == len(prompts):
        raise InputError(
            f"targets {path}: method.targets=all, but each of the {len(prompts)} problems has one target: prepare them "
            "with targets.traces_per_problem=4, or set method.targets=own"
        )


def verl_files(targets: Path) -> str | list[str]:
    """Return the files of targets as verl's configuration has them: a text if there is one only; none without rows."""
    files = [str(file.resolve()) for file in shards(targets) if pq.read_metadata(file).num_rows]
    return files if len(files) > 1 else files[0]


def run_files(targets: Path, config: DictConfig, folder: Path) -> tuple[Path, Path]:
    """Return the file that a run trains on and the one that it validates on; what differs from ``targets`` is written.

    A run that validates sets problems aside (`_validation`), and ``data.order=easy_first`` sorts the rest; ``folder``
    gets the result.

    Raises:
        InputError: a problem of ``data.val_files`` is one of ``targets``, or too few rows are left to train on.
    """
    validates = config.trainer.test_freq > 0
    sorts = config.data.order == EASY_FIRST
    if not validates and not sorts:
        return targets, targets
    rows = training = read_shards(targets)
    problems = targets
    if validates:
        training, validation = _validation(rows, targets, config)
        problems = folder / "validation.parquet"
        write_table(validation, problems)
    if sorts:
        order = easy_first(training[PASS_RATE.name].to_pylist(), config.data.train_batch_size, config.data.seed)
        training = training.take(order)
    if training is rows:
        return targets, problems
    write_table(training, folder / "train.parquet")
    return folder / "train.parquet", problems


def _validation(rows: pa.Table, targets: Path, config: DictConfig) -> tuple[pa.Table, pa.Table]:
    """Return the rows to train on, and the problems to validate on without their targets.

    These come from ``data.val_files``, or they are ``data.val_max_samples`` of the problems of ``rows``, which are then
    no part of the training: those with the lowest digests, so that every run on the same targets has the same.
    """
    count = config.data.val_max_samples
    batch = config.data.train_batch_size
    problems, given = _problems(rows), config.data.val_files
    source = read_shards(given) if given else rows
    candidates = _problems(source) if given else problems
    if given and (both := set(problems) & set(candidates)):
        raise InputError(f"data.val_files={given}: {len(both)} of its problems are in {targets}, too: remove them")
    first = {problem: row for row, problem in reversed(list(enumerate(candidates)))}  # one row of each
    chosen = sorted(first)[:count]
    validation = source.take([first[problem] for problem in chosen])
    column = validation.schema.get_field_index("target")
    empty = pa.array([[] for _ in chosen], validation.schema.field(column).type)
    validation = validation.set_column(column, validation.schema.field(column), empty)
    if given:
        return rows, validation
    aside = set(chosen)
    training = rows.filter(pa.array([problem not in aside for problem in problems]))
    if training.num_rows < batch:
        raise InputError(
            f"targets {targets}: {training.num_rows} rows are left to train on without the {len(chosen)} problems of "
            f"data.val_max_samples={count}, less than one batch of data.train_batch_size={batch}: lower one of them, "
            "or give other problems with data.val_files"
        )
    return training, validation


def _problems(table: pa.Table) -> list[str]:
    """Return the digest of the problem of each row: of what the user says in its prompt, blanks aside."""
    prompts = (prompt.as_py() for prompt in table["prompt"])
    texts = (" ".join(message["content"] for message in prompt if message["role"] == "user") for prompt in prompts)
    return [digest_bytes(" ".join(text.split()).encode()) for text in texts]


def _prepared_for(metadata: Mapping[str, str], lengths: Lengths, limits: Mapping[str, int]) -> bool:
    if metadata.get("tokenizer_digest") != lengths.digest:
        return False
    kept = json.loads(metadata["config"])
    if {**TEMPLATE_KWARGS, **kept.get("chat_template_kwargs", {})} != {**TEMPLATE_KWARGS, **lengths.template.kwargs}:
        return False
    return kept["max_prompt_tokens"] <= limits["prompt"] and kept["max_target_tokens"] <= limits["target"]


def _check_rows(path: Path, lengths: Lengths, limits: Mapping[str, int], *, log_probs: bool) -> None:
    """Check each row and its tokens: against ``limits``, if there are any, and against its log-probabilities."""
    start, absent = 0, list[int]()
    columns = ["prompt", "target", "reward_model", *([TARGET_LOG_PROBS.name] if log_probs else [])]
    for table in read_batches(path, ROWS, columns):
        rows = table.to_pylist()
        for number, row in enumerate(rows if limits else (), start):
            _check_content(f"targets {path}: row {number}", row)
        counts = lengths.count_examples([(row["prompt"], row["target"] or ()) for row in rows])
        for number, (row, tokens) in enumerate(zip(rows, counts, strict=True), start):
            where = f"targets {path}: row {number}"
            _check_lengths(where, tokens, limits)
            if log_probs and row["target"] and not _has_log_probs(where, row[TARGET_LOG_PROBS.name], tokens.target):
                absent.append(number)
        start += len(rows)
    if absent:
        raise InputError(
            f"targets {path}: {len(absent)} rows have a target without {TARGET_LOG_PROBS.name}: {_named(absent)}: give "
            "it for all of them, remove the rows (targets.require_log_probs=true), or set method.off_policy.phi=one"
        )


def _check_content(where: str, row: Mapping[str, Any]) -> None:
    for name in ("prompt", "target"):
        if (row[name] or name == "prompt") and not is_conversation(row[name]):
            raise InputError(f"{where}: {name} is not a list of {{role, content}} messages")
    gold = row["reward_model"].get("ground_truth") if isinstance(row["reward_model"], dict) else None
    if not isinstance(gold, str) or not gold.strip():
        raise InputError(
            f"{where}: reward_model.ground_truth is {gold!r:.80}, expected the gold answer as text (a list as the text "
            "that belongs in the box): give it, or remove the row"
        )


def _check_lengths(where: str, tokens: Counts, limits: Mapping[str, int]) -> None:
    counts = tokens.prompt, tokens.target + tokens.observations
    for (name, limit), count in zip(limits.items(), counts, strict=False):
        if count > limit:
            key = {"prompt": "data.max_prompt_length", "target": "data.max_response_length"}[name]
            raise InputError(
                f"{where}: its {name} has {count} tokens as it is trained on, more than {key}={limit}: raise it, or "
                "reject such rows with `luffy targets`"
            )


def is_conversation(messages: Any) -> bool:
    """Return whether ``messages`` are some, each with a role and a content."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return False
    fields = [message.get(name) for message in messages for name in ("role", "content")]
    return bool(fields) and all(isinstance(field, str) for field in fields)


def _has_log_probs(where: str, log_probs: Sequence[float | None] | None, tokens: int) -> bool:
    """Return whether a target has log-probabilities; InputError unless there is one for each of its ``tokens``."""
    if log_probs is None:
        return False
    if len(log_probs) != tokens:
        raise InputError(
            f"{where}: {len(log_probs)} {TARGET_LOG_PROBS.name} for a target of {tokens} tokens, its end token "
            "included: give one for each, counted with the tokenizer of the model"
        )
    if any(value is None or not (math.isfinite(value) and value <= 0) for value in log_probs):
        raise InputError(f"{where}: {TARGET_LOG_PROBS.name} must be finite numbers of at most 0")
    return True


def _named(rows: Sequence[int]) -> str:
    return ", ".join(map(str, rows[:NAMED_ROWS])) + (", …" if len(rows) > NAMED_ROWS else "")
