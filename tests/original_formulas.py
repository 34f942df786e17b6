"""The formulas of the original's functions (LUFFY, arXiv 2504.14945), token by token, in plain numbers.

A mean over no token is nan, and so is everything that multiplies 0 by nan or inf.
"""

import math
import statistics
from typing import Any

nan, inf = math.nan, math.inf


def exp(x: float) -> float:
    return inf if x > 709 else math.exp(x)


def divide(a: float, b: float) -> float:
    return a / b if b else nan if a == 0 or math.isnan(a) else math.copysign(inf, a)


def mean(values: list[float], weights: list[float]) -> float:
    return divide(sum(v * w for v, w in zip(values, weights, strict=True)), sum(weights))


def shaped(name: str, p: float, log_p: float, weight: float, exponent: float) -> float:
    if name.startswith("p_div_p_"):
        return divide(p, p + float(name[8:]))
    plain = {"no_reshape": p, "logp": weight * log_p, "p_logp": p + weight * log_p, "square_root": math.sqrt(p)}
    return plain[name] if name in plain else p**exponent


def shaped_ratio(name: str, new: float, old: float, weight: float, exponent: float) -> float:
    if name.startswith("p_div_p_"):
        return divide(shaped(name, exp(new), new, 0, 0), shaped(name, exp(old), old, 0, 0))
    return shaped(name, exp(new - old), new - old, 1.0 if name == "logp" else weight, exponent)


def greater(a: float, b: float) -> float:
    return nan if math.isnan(a) or math.isnan(b) else max(a, b)


def reference_loss(
    old: list[float],
    new: list[float],
    advantages: list[float],
    valid: list[float],
    off_policy: list[bool],
    width: int,
    cliprange: float = 0.2,
    clip_upper_bound: float = 1.0,
    **options: Any,
) -> dict[str, float]:
    """The eleven numbers of flat lists of tokens."""
    given = {"off_max_clip": None, "off_min_clip": None, "all_max_clip": None, "target_probs": None} | options
    low, high = 1 - cliprange, max(clip_upper_bound, 1 + cliprange)
    on = [v * (not off) for v, off in zip(valid, off_policy, strict=True)]
    off = [v * off for v, off in zip(valid, off_policy, strict=True)]
    ratios = [
        shaped_ratio(
            given.get("on_policy_reshape", "no_reshape"),
            n,
            o,
            given.get("on_policy_reshape_weight", 1.0),
            given.get("on_policy_reshape_pow_exp", 0.5),
        )
        for n, o in zip(new, old, strict=True)
    ]
    plain = [-a * r for a, r in zip(advantages, ratios, strict=True)]
    clipped = [-a * min(max(r, low), high) for a, r in zip(advantages, ratios, strict=True)]
    removed = given.get("loss_remove_clip", False)
    on_losses = plain if removed else [greater(p, c) for p, c in zip(plain, clipped, strict=True)]
    clip_flags = [float(c > p) for p, c in zip(plain, clipped, strict=True)]
    phi = given["target_probs"]
    name, weight = given.get("off_policy_reshape", "no_reshape"), given.get("off_policy_reshape_weight", 1.0)
    exponent = given.get("off_policy_reshape_pow_exp", 0.5)
    if phi is None:
        factors = [shaped(name, exp(n), n, weight, exponent) for n in new]
    else:
        factors = [divide(exp(n), q + 1e-6) * x for n, q, x in zip(new, phi, off_policy, strict=True)]
    fractions = {"max": 0.0, "min": 0.0}
    for end, pick in (("max", min), ("min", max)):
        if (bound := given[f"off_{end}_clip"]) is not None:
            factors = [pick(f, bound) for f in factors]
            fractions[end] = mean([float(f == bound) for f in factors], off)
    off_losses = [-a * f for a, f in zip(advantages, factors, strict=True)]
    losses = [o if x else n for o, n, x in zip(off_losses, on_losses, off_policy, strict=True)]
    kept = [
        v if given["all_max_clip"] is None or exp(n) <= given["all_max_clip"] else 0.0
        for v, n in zip(valid, new, strict=True)
    ]
    total = sum(value * k for value, k in zip(losses, kept, strict=True))
    guarded = {
        "off_pg_loss": mean(off_losses, off),
        "off_policy_prob": mean([exp(n) for n in new], off),
        "on_policy_prob": mean([exp(o) for o in old], on),
        "off_ratio_mean": mean(factors, off),
    }
    guarded = {key: 0.0 if math.isnan(value) else value for key, value in guarded.items()}
    return {
        "pg_loss": total / width if given.get("loss_remove_token_mean", False) else mean(losses, kept),
        "off_pg_loss": guarded["off_pg_loss"],
        "on_pg_loss": mean(on_losses, on),
        "off_pg_clipfrac": 0.0,
        "on_pg_clipfrac": 0.0 if removed else mean(clip_flags, valid),
        "ppo_kl": mean([o - n for o, n in zip(old, new, strict=True)], valid),
        "off_policy_prob": guarded["off_policy_prob"],
        "on_policy_prob": guarded["on_policy_prob"],
        "off_ratio_mean": guarded["off_ratio_mean"],
        "off_ratio_max_clip_frac": fractions["max"],
        "off_ratio_min_clip_frac": fractions["min"],
    }


def reference_advantages(
    scores: list[float], groups: list[Any], on_policy: list[bool], epsilon: float, use_std: bool
) -> list[float]:
    result = []
    for score, group in zip(scores, groups, strict=True):
        members = [s for s, g, own in zip(scores, groups, on_policy, strict=True) if own and g == group]
        centre, deviation = 0.0, 1.0
        if len(members) > 1:
            centre, deviation = statistics.fmean(members), statistics.stdev(members)
            deviation = 1.0 if len(set(members)) == 1 else deviation
        result.append((score - centre) / (deviation + epsilon) if use_std else score - centre)
    return result
