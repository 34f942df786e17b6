"""A user's reward function: check it before a run starts, and name function and sample in its errors.

A run calls `compute_score`, which calls the function that ``reward.custom_reward_function`` names.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from core.errors import InputError, first_line
from core.plugins.user_code import ARGUMENTS, import_problem, load_function
from grading.verifiers.spec import VerifierSpec
from training.config.compose import MODULE

SHIPPED = f"{MODULE}training.verl_hooks.reward"  # the verifiers of the project
MATH = VerifierSpec("math")
VERIFIERS = "verifiers"  # argument with the spec of each source, as JSON


class RewardError(RuntimeError):
    """An exception of a reward function, or a returned value that is no score."""


def reward_section(section: Mapping[str, Any], verifiers: Mapping[str, VerifierSpec]) -> dict[str, Any]:
    """Return ``reward.custom_reward_function`` as verl gets it: a user's function is called by `compute_score`.

    Args:
        section: what the run is configured with.
        verifiers: those of the sources of its targets, which the project's own function asks.
    """
    if section["path"] != SHIPPED:
        arguments = {"function": dict(section)}
        return {"path": f"{MODULE}{__name__}", "name": compute_score.__name__, "reward_kwargs": arguments}
    if set(verifiers.values()) == {MATH}:
        return dict(section)
    specs = json.dumps({name: spec.to_json() for name, spec in verifiers.items()}, sort_keys=True)
    return {**section, "reward_kwargs": {VERIFIERS: specs}}


def check_reward_function(section: Mapping[str, Any]) -> None:
    """Import the function of ``section`` and check that it accepts the arguments of verl.

    Raises:
        InputError: there is no such file or function, its import fails, or it takes other arguments.
    """
    where = f"reward.custom_reward_function: {section['path']}"
    try:
        function = load(section["path"], section["name"])
    except AttributeError:
        raise InputError(f"{where} has no function {section['name']!r}: name a function with ...name") from None
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        problem = import_problem(f"{section['path'].removeprefix(MODULE)}:{section['name']}", error)
        raise InputError(f"{where}: {problem}") from error
    try:
        inspect.signature(function).bind(**dict.fromkeys(ARGUMENTS), **(section.get("reward_kwargs") or {}))
    except TypeError as error:
        raise InputError(
            f"{where}: {section['name']} does not take {', '.join(ARGUMENTS)} by name ({error}): verl calls it so"
        ) from error


def load(path: str, name: str) -> Callable[..., Any]:
    """Return the function ``name`` of a file, or of a module after ``pkg://``; raises as `import_function` does."""
    if not path.startswith(MODULE) and not path.endswith(".py"):
        raise ImportError("expected a Python file (.py)")
    return load_function(f"{path.removeprefix(MODULE)}:{name}")


async def compute_score(*, function: Mapping[str, Any], **sample: Any) -> Any:
    """Return the score of ``sample`` by the user's ``function``, a section as `reward_section` keeps it.

    Raises:
        RewardError: the function raised, or returned neither a number nor a mapping with a ``score``.
    """
    call = load(function["path"], function["name"])
    kwargs = function.get("reward_kwargs") or {}
    try:
        if inspect.iscoroutinefunction(call):
            score = await call(**sample, **kwargs)
        else:
            score = await asyncio.to_thread(call, **sample, **kwargs)
    except (Exception, SystemExit) as error:  # whatever the user's function raises
        raise RewardError(_text(function, sample, f"raised {type(error).__name__}: {first_line(error)}")) from error
    number = score.get("score") if isinstance(score, Mapping) else score
    try:
        float(number)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        expected = "expected a number, or a mapping with one as its score"
        raise RewardError(_text(function, sample, f"returned {score!r:.80}, {expected},")) from None
    return score


def _text(function: Mapping[str, Any], sample: Mapping[str, Any], what: str) -> str:
    extra = sample.get("extra_info") or {}
    row = extra.get("id", extra.get("index"))
    gold = f"gold answer {sample.get('ground_truth')!r:.80}"
    return f"{function['path']}: {function['name']} {what} for a sample of row {row} with {gold}"
