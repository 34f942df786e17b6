"""Check the targets and the model of a run before anything starts, because verl would only fail much later."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import DictConfig, OmegaConf

from core.errors import InputError
from core.files import digest_bytes, read_object, write_table
from core.model.manifest import InputRecord, TargetsRecord
from core.model.model_folder import check_model
from core.model.prompts import TEMPLATE_KWARGS
from core.model.tokens import Lengths, load_lengths
from core.parquet import count_rows, read_batches, read_shards, shards
from core.plugins.config_files import check_not_declared
from core.plugins.user_code import check_function
from core.schemas import PASS_RATE, TARGET, TARGET_LOG_PROBS
from grading.verifiers.spec import VerifierSpec, parse_spec
from training.algorithms.off_policy_schedule import parse_schedule
from training.algorithms.registry import KEYS
from training.algorithms.schedules.prompt_order import EASY_FIRST, easy_first
from training.job.configuration import chat_template
from training.job.user_reward import check_reward_function

MATH = VerifierSpec("math")
VERIFIERS_KEY = b"verifiers"  # metadata of a file of targets
ROWS = 1024  # read and tokenized at a time
NAMED_ROWS = 5  # number of rows that one message names


def check_context(model: Path, config: DictConfig) -> None:
    """Raise InputError if ``model`` is not whole, or a prompt and a response of maximal length exceed its context."""
    check_model(model, kwargs=chat_template(config).kwargs)
    settings = read_object(model / "config.json")
    settings = settings | settings.get("text_config", {}) | dict(config.actor_rollout_ref.model.override_config)
    context, needed = settings.get("max_position_embeddings"), config.actor_rollout_ref.rollout.max_model_len
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
    ``config``, unless the file's metadata says that its preparation did so.

    Args:
        least: rows that there must be; a batch by default.

    Raises:
        InputError: the file is missing or not a parquet; a column is missing or has another type; a row has no gold
            answer, or a prompt or target over its limit; there are fewer rows than one batch needs. The message names
            the row and the remedy.
    """
    path = targets.path
    try:
        schema, rows = pq.read_schema(shards(path)[0]), count_rows(path)
    except FileNotFoundError:
        raise InputError(
            f"targets {path}: no such file: materialize targets/train or give --targets a parquet"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"targets {path}: not a readable parquet file ({error})") from error
    missing = [name for name in TARGET.names if name not in schema.names]
    if missing:
        raise InputError(
            f"targets {path}: no column {', '.join(missing)}; expected {', '.join(TARGET.names)}: "
            "prepare them with `python -m targets`"
        )
    batch = config.data.train_batch_size
    if rows < (batch if least is None else least):
        raise InputError(f"targets {path}: {rows} rows are less than one batch of data.train_batch_size={batch}")
    read_verifiers(path)
    metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    lengths = load_lengths(model, chat_template(config).kwargs)
    limits = {"prompt": config.data.max_prompt_length, "target": config.data.max_response_length}
    if not _prepared_for(metadata, lengths, limits):
        start = 0
        for table in read_batches(path, ROWS, ["prompt", "target", "reward_model"]):
            _check_rows(path, start, table.to_pylist(), lengths, limits)
            start += table.num_rows
    if config.mixed.use_target_probs:
        _check_log_probs(path, schema, lengths)
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
            f"targets {targets}: no verifier for data_source {unknown[0]!r}: the file's metadata has those of "
            f"{', '.join(records)}; prepare the targets again"
        )
    specs = {name: parse_spec(records[name]["verifier"], f"targets {targets}: verifier of {name}") for name in sources}
    if changed := [name for name, spec in specs.items() if spec.digest != records[name]["digest"]]:
        raise InputError(
            f"targets {targets}: the verifier of {changed[0]} is not the one that the targets were prepared with: a "
            "file or package that it reads has changed; prepare the targets again"
        )
    return specs


def check_reward(config: DictConfig) -> None:
    """Raise InputError unless the reward function of ``config`` can be imported and called as verl calls it."""
    if config.objective == "rl":
        check_reward_function(OmegaConf.to_container(config.reward.custom_reward_function))


def check_functions(config: DictConfig) -> None:
    """Raise InputError for a function that cannot be imported, takes other arguments, or has a name of the project."""
    for key, registry in KEYS.items():
        value = OmegaConf.select(config, key)
        if value in registry:
            check_not_declared(value, registry.group)
        elif (path := registry.outside(value)) is not None:
            try:
                check_function(path, registry.arguments)
            except InputError as error:
                raise InputError(f"{key}: {error}") from error


def check_pass_rates(path: Path, config: DictConfig) -> None:
    """Raise InputError unless each row of the targets has the pass rate that ``config`` decides by."""
    if config.data.order == EASY_FIRST:
        reader, instead = f"data.order={EASY_FIRST}", "data.order=shuffle"
    elif parse_schedule(config.mixed.off_policy_schedule) is not None:
        reader, instead = (
            f"mixed.off_policy_schedule={config.mixed.off_policy_schedule}",
            "mixed.off_policy_schedule=always",
        )
    else:
        return
    name, schema = PASS_RATE.name, pq.read_schema(shards(path)[0])
    remedy = f"(targets/difficulty, or python -m evaluation difficulty), or set {instead}"
    if name not in schema.names or not pa.types.is_floating(schema.field(name).type):
        raise InputError(
            f"targets {path}: no column {name} of numbers, which {reader} reads: prepare the targets with the pass "
            f"rates of the base model {remedy}"
        )
    rates = read_shards(path, columns=[name])[name].to_pylist()
    absent = [row for row, rate in enumerate(rates) if rate is None or not 0 <= rate <= 1]
    if absent:
        named = ", ".join(map(str, absent[:NAMED_ROWS])) + (", …" if len(absent) > NAMED_ROWS else "")
        raise InputError(
            f"targets {path}: {len(absent)} of {len(rates)} rows have no {name} from 0 to 1, which {reader} reads: row "
            f"{named}: measure all problems {remedy}. targets.pass_rate=[0, 1] leaves out what was not measured"
        )


def verl_files(targets: Path) -> str | list[str]:
    """Return the files of targets as verl's configuration has them: a text if there is one only; none without rows."""
    files = [str(file.resolve()) for file in shards(targets) if pq.read_metadata(file).num_rows]
    return files if len(files) > 1 else files[0]


def order_targets(targets: Path, config: DictConfig, folder: Path) -> Path:
    """Return the file to train on: ``targets``, or for ``data.order=easy_first`` a sorted copy in ``folder``."""
    if config.data.order != EASY_FIRST:
        return targets
    rows = read_shards(targets)
    order = easy_first(rows[PASS_RATE.name].to_pylist(), config.data.train_batch_size, config.data.seed)
    write_table(rows.take(order), folder / "train.parquet")
    return folder / "train.parquet"


def split_validation(targets: Path, config: DictConfig, folder: Path) -> tuple[Path, Path]:
    """Write the problems that a run validates on into ``folder``, without their targets.

    They come from ``data.val_files``, or they are ``data.val_max_samples`` of the problems of ``targets``, which are
    then no part of the training: those with the lowest digests, so that every run on the same targets has the same.

    Returns:
        The file to train on and the file to validate on.

    Raises:
        InputError: a problem of ``data.val_files`` is one of ``targets``, or too few rows are left to train on.
    """
    count, batch = config.data.val_max_samples, config.data.train_batch_size
    rows, given = read_shards(targets), config.data.val_files
    problems = _problems(rows)
    if given:
        source = read_shards(given)
        if both := set(problems) & set(_problems(source)):
            raise InputError(f"data.val_files={given}: {len(both)} of its problems are in {targets}, too: remove them")
    else:
        source = rows
    candidates = _problems(source)
    first = {problem: row for row, problem in reversed(list(enumerate(candidates)))}  # one row of each
    chosen = sorted(first)[:count]
    validation = source.take([first[problem] for problem in chosen])
    column = validation.schema.get_field_index("target")
    empty = pa.array([[] for _ in chosen], validation.schema.field(column).type)
    write_table(validation.set_column(column, validation.schema.field(column), empty), folder / "validation.parquet")
    if given:
        return targets, folder / "validation.parquet"
    aside = set(chosen)
    training = rows.filter(pa.array([problem not in aside for problem in problems]))
    if training.num_rows < batch:
        raise InputError(
            f"targets {targets}: {training.num_rows} rows are left to train on without the {len(chosen)} problems of "
            f"data.val_max_samples={count}, less than one batch of data.train_batch_size={batch}: lower one of them, "
            "or give other problems with data.val_files"
        )
    write_table(training, folder / "train.parquet")
    return folder / "train.parquet", folder / "validation.parquet"


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


def _check_rows(
    path: Path, start: int, rows: Sequence[Mapping[str, Any]], lengths: Lengths, limits: Mapping[str, int]
) -> None:
    for number, row in enumerate(rows, start):
        if not _conversation(row["prompt"]):
            raise InputError(f"targets {path}: row {number}: prompt is not a list of {{role, content}} messages")
        if row["target"] and not _conversation(row["target"]):
            raise InputError(f"targets {path}: row {number}: target is not a list of {{role, content}} messages")
        gold = row["reward_model"].get("ground_truth") if isinstance(row["reward_model"], dict) else None
        if gold is not None and not isinstance(gold, str):
            raise InputError(
                f"targets {path}: row {number}: reward_model.ground_truth is {gold!r:.80}, a {type(gold).__name__}, "
                "and a gold answer is text: write the column as strings (a list as the text that belongs in the box)"
            )
        if not gold or not gold.strip():
            raise InputError(
                f"targets {path}: row {number}: no answer in reward_model.ground_truth, so no sample of it can be "
                "graded: give the gold answer or remove the row"
            )
    targets = [row["target"][0]["content"] if row["target"] else "" for row in rows]
    counts = lengths.count_examples([(row["prompt"], target) for row, target in zip(rows, targets, strict=True)])
    for number, of_row in enumerate(counts, start):
        for (name, limit), tokens in zip(limits.items(), of_row, strict=True):
            if tokens > limit:
                key = {"prompt": "data.max_prompt_length", "target": "data.max_response_length"}[name]
                raise InputError(
                    f"targets {path}: row {number}: its {name} has {tokens} tokens as it is trained on, more than "
                    f"{key}={limit}: raise it, or reject such rows with `python -m targets`"
                )


def _check_log_probs(path: Path, schema: pa.Schema, lengths: Lengths) -> None:
    """Check that each target has one log-probability for each of its tokens and its end token."""
    column = TARGET_LOG_PROBS.name
    if column not in schema.names:
        raise InputError(
            f"targets {path}: no column {column}, which mixed.use_target_probs=true reads: give the teacher's "
            "log-probability of each token of the target and its end token, or set it to false"
        )
    absent: list[int] = []
    start = 0
    for table in read_batches(path, ROWS, ["prompt", "target", column]):
        rows = table.to_pylist()
        examples = [(row["prompt"], row["target"][0]["content"] if row["target"] else "") for row in rows]
        counts = lengths.count_examples(examples)
        for number, (row, (_, tokens)) in enumerate(zip(rows, counts, strict=True), start):
            log_probs = row[column]
            if not row["target"]:
                continue
            if log_probs is None:
                absent.append(number)
            elif len(log_probs) != tokens:
                raise InputError(
                    f"targets {path}: row {number}: {len(log_probs)} {column} for a target of {tokens} "
                    "tokens, its end token included: give one for each, counted with the tokenizer of the model"
                )
            elif any(value is None or not (math.isfinite(value) and value <= 0) for value in log_probs):
                raise InputError(f"targets {path}: row {number}: {column} must be finite numbers of at most 0")
        start += len(rows)
    if absent:
        named = ", ".join(map(str, absent[:NAMED_ROWS])) + (", …" if len(absent) > NAMED_ROWS else "")
        raise InputError(
            f"targets {path}: {len(absent)} rows have a target without {column}: {named}: give it for all of them, "
            "remove the rows (targets.require_log_probs=true), or set mixed.use_target_probs=false"
        )


def _conversation(messages: Any) -> bool:
    return (
        isinstance(messages, list)
        and len(messages) > 0
        and all(
            isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str)
            for m in messages
        )
    )
