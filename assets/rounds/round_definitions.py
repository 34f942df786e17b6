"""The definitions of the assets of all rounds."""

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.models import KEY as BASE
from assets.rounds.round_problems import GROUP, key
from assets.rounds.round_scorecard import scorecard
from assets.rounds.round_scores import scores
from assets.rounds.round_traces import traces
from assets.rounds.train import train
from assets.shared.live_metrics import metrics_spec
from assets.shared.profile import Names
from assets.shared.references import (
    PolicyReference,
    Reference,
    RoundReference,
    RoundScoresReference,
    RoundTrainReference,
)
from assets.training import policy
from core.errors import InputError
from evaluation.generation.endpoint import Endpoint
from evaluation.settings import GenerateSettings


def build_rounds(
    names: Names, number_of_rounds: int, teacher: GenerateSettings | None, recipe: str
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Build the assets of every round; each begins with what the round before leaves.

    Raises:
        InputError: there is no teacher behind an endpoint, or a recipe whose policy samples nothing.
    """
    from training.config.overrides import read_by

    if teacher is None or Endpoint.parse(teacher.teacher) is None:
        raise InputError(
            "rounds: they ask the teacher of the section generate, which must be MODEL@URL of an endpoint, whose "
            "tokens are counted: set generate.teacher (a model folder is one behind `vllm serve`)"
        )
    if read_by(recipe, ["actor_rollout_ref.rollout.n=8"])[1]:
        raise InputError(
            f"rounds: the policy's own samples say what it does not solve, and training.recipe={recipe} draws "
            "none: choose a recipe with rollouts, such as luffy"
        )
    shared = {"base": dg.AssetIn(BASE), "suite": dg.AssetIn(SUITE)}
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = []
    for number in range(1, number_of_rounds + 1):
        earlier = range(1, number)
        ins = {f"policy_{past}": dg.AssetIn(key(past, "policy"), dagster_type=PolicyReference) for past in earlier}
        if number > 1:
            ins["before"] = dg.AssetIn(key(number - 1, "traces"), dagster_type=RoundReference)
        start = dg.AssetIn(key(number - 1, "policy"), dagster_type=Reference) if number > 1 else shared["base"]
        learned = {"train": dg.AssetIn(key(number, "train"), dagster_type=RoundTrainReference), "base": start}
        rounds = {
            f"{name}_{past}": dg.AssetIn(key(past, name), dagster_type=kind)
            for name, kind in (("traces", RoundReference), ("scores", RoundScoresReference))
            for past in [*earlier, number]
        }
        made = {"traces": dg.AssetIn(key(number, "traces"), dagster_type=RoundReference)}
        scored = {"policy": dg.AssetIn(key(number, "policy")), "problems": dg.AssetIn(SUITE)}
        assets += [
            traces.build(names, key=key(number, "traces"), ins=shared | ins),
            train.build(names, key=key(number, "train"), ins=shared | made),
            policy.build(names, key=key(number, "policy"), group_name=GROUP, ins=learned),
            metrics_spec(names, key(number, "policy")),
            scores.build(names, key=key(number, "scores"), ins=scored),
            scorecard.build(names, key=key(number, "scorecard"), ins=shared | rounds),
        ]
    return assets
