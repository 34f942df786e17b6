"""Makes rollout_correction.json: ``python tests/golden/rollout_correction.py``. Formulas in plain floats, no tensor.

Of a row with on-policy tokens t = 1..T, w_t = exp(old_t - rollout_t) and the PPO loss
l_t = max(-A r_t, -A clip(r_t, 0.8, 1.2)), r_t = exp(new_t - old_t), each type
weighs l_t (OpenRLHF's policy loss, and REINFORCE Pro's description):

tis            clip(w_t, low, high)
icepop         w_t, or 0 outside [low, high]
seq-mask-tis   w_t, or 0 for a row whose geometric mean of w is outside [low, high]
reinforce_pro  w_t, or 0 where the geometric mean of w_1..w_t is outside [low, high]

The loss is the mean over tokens, or the mean over rows of the rows' means. Its gradient with respect to new_t is
written out: d l_t / d new_t = -A r_t where the unclipped term is the larger one, and 0 elsewhere.
"""

import json
import math
import random
from itertools import accumulate
from pathlib import Path

BANDS = [(0.5, 5.0), (0.8, 2.0), (0.2, 10.0)]
TYPES = ["tis", "icepop", "seq-mask-tis", "reinforce_pro"]
CLIP = 0.2


def inputs() -> dict[str, list[list[float]]]:
    """Three rows of up to six tokens; the last row starts and ends with tokens that do not count."""
    source = random.Random(20)

    def rows(low: float, high: float) -> list[list[float]]:
        return [[round(source.uniform(low, high), 4) for _ in range(6)] for _ in range(3)]

    old = rows(-3.0, -0.1)
    near = [[round(value + source.gauss(0, 0.25), 4) for value in row] for row in old]
    rollout = [[round(value + source.gauss(0, 0.9), 4) for value in row] for row in old]
    advantages = [[value] * 6 for value in (0.9, -1.1, 0.4)]
    mask = [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 0]]
    return {"old": old, "new": near, "rollout": rollout, "advantages": advantages, "mask": mask}


def weights(kind: str, ratios: list[float], low: float, high: float) -> tuple[list[float], list[float]]:
    """The weights of the tokens of a row, and the geometric mean of the ratios up to each of them."""
    sums = accumulate(math.log(ratio) for ratio in ratios)
    means = [math.exp(total / (place + 1)) for place, total in enumerate(sums)]
    if kind == "tis":
        return [min(max(ratio, low), high) for ratio in ratios], means
    if kind == "icepop":
        return [ratio if low <= ratio <= high else 0.0 for ratio in ratios], means
    if kind == "seq-mask-tis":
        return [ratio if low <= means[-1] <= high else 0.0 for ratio in ratios], means
    return [ratio if low <= mean <= high else 0.0 for ratio, mean in zip(ratios, means, strict=True)], means


def case(kind: str, low: float, high: float, by_token: bool, given: dict[str, list[list[float]]]) -> dict:
    tokens = sum(map(sum, given["mask"]))
    loss, grad = 0.0, [[0.0] * 6 for _ in range(3)]
    kept, prefix_means = [[0] * 6 for _ in range(3)], [[1.0] * 6 for _ in range(3)]
    for row, counted in enumerate(given["mask"]):
        places = [place for place, counts in enumerate(counted) if counts]
        ratios = [math.exp(given["old"][row][place] - given["rollout"][row][place]) for place in places]
        each, means = weights(kind, ratios, low, high)
        share = 1 / tokens if by_token else 1 / len(places) / len(given["mask"])
        for place, weight, mean in zip(places, each, means, strict=True):
            advantage = given["advantages"][row][place]
            ratio = math.exp(given["new"][row][place] - given["old"][row][place])
            plain, clipped = -advantage * ratio, -advantage * min(max(ratio, 1 - CLIP), 1 + CLIP)
            loss += share * weight * max(plain, clipped)
            grad[row][place] = share * weight * plain if plain >= clipped else 0.0
            kept[row][place], prefix_means[row][place] = int(weight > 0), mean
    return {
        "type": kind,
        "band": [low, high],
        "mode": "token-mean" if by_token else "seq-mean-token-mean",
        "loss": loss,
        "grad": grad,
        "kept": kept,
        "prefix_means": prefix_means,
    }


def main() -> None:
    given = inputs()
    cases = [
        case(kind, low, high, by_token, given) for low, high in BANDS for by_token in (True, False) for kind in TYPES
    ]
    content = {"source": "OpenRLHF's policy loss; the description of REINFORCE Pro", "inputs": given, "cases": cases}
    Path(__file__).with_suffix(".json").write_text(json.dumps(content) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
