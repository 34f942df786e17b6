"""Look for the causes that need no training, in a few targets of a run that is about to start."""

import asyncio
import inspect
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from core.model.episodes import final_turn
from core.model.prompts import render_target
from core.model.token_counts import load_lengths
from core.parquet import read_table
from core.schemas import SAMPLE
from grading.row_fields import PROBLEM
from grading.verifiers.spec import VerifierSpec
from training.config.to_verl import chat_template, compose_run, tools_of
from training.diagnosis.explain import Finding, explain, seen
from training.diagnosis.live import Warn, without_harm
from training.diagnosis.record import BEFORE, FIRST, RunRecord, sample_rows
from training.job.input_checks import read_verifiers
from training.job.records.rollout_log import Rollout
from training.job.request import TrainingRequest
from training.job.user_reward import SHIPPED, RewardError, load, reward_section

SECONDS = 2.0  # after which no further target is looked at
BORROWED = 2  # answers to other problems that a verifier should not take for right
COSTLY = "judge"  # type of a verifier whose verdicts cost money
UNKNOWN = 0.5  # the reward of an answer that is neither right nor wrong

Answers = Mapping[str, Sequence[tuple[str, int]]]  # responses with their tokens, by problem
Score = Callable[[Mapping[str, Any], str], Awaitable[tuple[float, str]]]  # of a row and a response; why it failed


def examine(config: DictConfig, targets: Path, model: Path, drawn: Answers | None = None) -> list[Finding]:
    """Return the causes that can be seen in some targets of a run, before it starts.

    Args:
        config: The composed configuration of the run.
        targets: the file of its training set.
        model: the folder of its base model.
        drawn: its responses; without them the verifier is tried on answers to other problems.
    """
    from training.verl_hooks.reward import close_verifiers

    rows = sample_rows(targets)
    verifiers = read_verifiers(targets)
    values: Any = OmegaConf.to_container(config)
    values["actor_rollout_ref"]["model"]["path"] = str(model)
    shipped = values["reward"]["custom_reward_function"]["path"] == SHIPPED
    section = reward_section(values["reward"]["custom_reward_function"], verifiers)
    values["reward"]["custom_reward_function"] = section
    lengths = load_lengths(model, chat_template(config))
    score = _score(section, verifiers if shipped else {}, tools=tools_of(config) is not None)
    samples: list[Rollout] = []

    async def look() -> None:
        ended = time.monotonic() + SECONDS
        for row, answers in _answers(rows, drawn):
            if samples and time.monotonic() > ended:
                return
            prompt = lengths.prompt_text(row["prompt"])
            gold = _gold(row)
            for place, (text, tokens) in enumerate(answers):
                response = text if tokens else render_target(prompt, text, lengths.chat.eos_token)
                count = tokens or lengths.count([response])[0]
                reward, error = await score(row, response)
                prefix = 0 if place else count  # the first is the target itself
                samples.append(Rollout(prompt, response, gold, reward, prefix, count, error))

    try:
        _run(look(), None if shipped else 2 * SECONDS)
    finally:
        close_verifiers()
    return explain(RunRecord(values, samples={0: [*samples]}), *_moments(drawn))


def warn_before(config: DictConfig, targets: Path, model: Path, warn: Warn) -> None:
    """Warn of the causes that can be seen in the targets of a run that is about to start."""
    if config.objective == "rl":
        with without_harm(0, warn):
            for finding in examine(config, targets, model):
                warn(0, finding.line())


def report(file: Path, samples: Path | None) -> int:
    """Test the training of the request in ``file``, and print a line for each test; the exit status: 1 if one fails.

    Args:
        samples: answers of the base model that `evaluate generate` drew.

    Raises:
        InputError: the training could not start.
    """
    request = TrainingRequest.read(file).complete()
    config = compose_run(request.recipe, request.hardware, request.config_overrides(), run=request.out)
    rows = sample_rows(request.targets.path)
    drawn = None if samples is None else _drawn(samples, rows)
    faults = {one.cause.name: one for one in examine(config, request.targets.path, request.model.path, drawn)}
    answers = " with answers of the base model" if drawn else ""
    sys.stdout.write(f"{len(rows)} prompts of {request.targets.path.name}{answers}\n")
    for cause in seen(*_moments(drawn)):
        line = f"FAIL  {faults[cause.name].line()}" if cause.name in faults else f"ok    {cause.name}: not seen"
        sys.stdout.write(f"{line}\n")
    return int(bool(faults))


def _moments(drawn: Answers | None) -> tuple[str, ...]:
    """Return when the causes that are looked for show; answers of the base model are what a first step samples."""
    return (BEFORE,) if drawn is None else (BEFORE, FIRST)


def _drawn(samples: Path, rows: Sequence[Mapping[str, Any]]) -> Answers:
    drawn: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for one in read_table(samples, SAMPLE, "give a file of `luffy evaluate generate`").to_pylist():
        drawn[_problem(rows[int(one["id"])])].append((one["response"], one["tokens"]))
    return drawn


def _answers(
    rows: Sequence[Mapping[str, Any]], drawn: Answers | None
) -> Iterator[tuple[Mapping[str, Any], Sequence[tuple[str, int]]]]:
    """Yield each row with its target, and with the answers to its problem or, without any, to others (0 tokens)."""
    for number, row in enumerate(rows):
        others = [rows[(number + 1 + k) % len(rows)] for k in range(min(BORROWED, len(rows) - 1))]
        borrowed = [(final_turn(other["target"]), 0) for other in others]
        answers = borrowed if drawn is None else drawn.get(_problem(row), ())
        yield row, [(final_turn(row["target"]), 0), *answers]


def _problem(row: Mapping[str, Any]) -> str:
    return row["prompt"][-1]["content"]


def _gold(row: Mapping[str, Any]) -> str:
    return str(row["reward_model"]["ground_truth"])


def _score(section: Mapping[str, Any], verifiers: Mapping[str, VerifierSpec], *, tools: bool) -> Score:
    """Return the reward of the run, which asks none of the ``verifiers`` that cost money."""
    from training.verl_hooks.reward import FINAL

    function = load(section["path"], section["name"])
    arguments = section.get("reward_kwargs") or {}

    async def score(row: Mapping[str, Any], response: str) -> tuple[float, str]:
        source = row["data_source"]
        if source in verifiers and verifiers[source].type == COSTLY:
            return UNKNOWN, ""
        extra = {**row["extra_info"], PROBLEM: _problem(row)} | ({FINAL: response} if tools else {})
        try:
            scored = function(
                data_source=source, solution_str=response, ground_truth=_gold(row), extra_info=extra, **arguments
            )
            scored = await scored if inspect.isawaitable(scored) else scored
        except RewardError as error:
            return 0.0, str(error)
        return (float(scored["score"]), scored.get("error", "")) if isinstance(scored, Mapping) else (float(scored), "")

    return score


class _SameThread(ThreadPoolExecutor):
    """Runs each call where it is asked for: no exit of the process waits for one that hangs."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _run(look: Coroutine[Any, Any, None], seconds: float | None) -> None:
    """Run ``look`` in one event loop, as verl does; leave it behind after ``seconds``: a user's function may hang."""
    done: Future[None] = Future()

    async def looking() -> None:
        asyncio.get_running_loop().set_default_executor(_SameThread())
        await look

    def run() -> None:
        try:
            done.set_result(asyncio.run(looking()))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    with suppress(TimeoutError):
        done.result(seconds)
