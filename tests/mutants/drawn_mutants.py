"""Faults that a mutation tool drew, as replacements of functions.

cosmic-ray 8.7.0 lists 22,342 mutations of `training/algorithms`, `grading`, `targets/filter` and
`evaluation/statistics` at commit 33d82975. Sorted by file, operator and occurrence, ``random.Random(65).sample`` drew
from each folder; the first 10, 8, 6 and 6 are here. Passed over were those that raise at the first call (``&`` between
numbers), that are in annotations or change no decision, and those of the second grammar, which was to go. Each entry
names its operator and what became of the line.
"""

import re
from dataclasses import replace
from typing import Any

from planting import Function, mutant

DOCTESTS = "unit/test_doctests.py::test_the_examples_are_true"
ORIGINAL_LOSS = "unit/training/algorithms/test_original_loss.py"
MIXED_LOSS = "unit/training/algorithms/test_mixed_loss.py"
GRADER = "unit/grading/test_answers.py"


@mutant("training.algorithms.original:compute_token_on_off_policy_loss", ORIGINAL_LOSS)
def target_ratio_is_floored(original: Function, *arguments: Any, target_probs: Any = None, **options: Any) -> Any:
    """Div_FloorDiv: ``log_prob.exp() // (target_probs + 1e-6)``."""
    if target_probs is not None:
        ratio = arguments[1].detach().exp() / (target_probs + 1e-6)
        target_probs = arguments[1].detach().exp() / ratio.floor() - 1e-6
    return original(*arguments, target_probs=target_probs, **options)


@mutant("training.algorithms.original:compute_token_on_off_policy_loss", ORIGINAL_LOSS)
def off_policy_tokens_count_twice(original: Function, *arguments: Any, **options: Any) -> Any:
    """Sub_Add: ``off_losses * off_share + on_losses * (1.0 + off_share)``."""
    output, mask, off_policy = original(*arguments, **options), arguments[3], arguments[6]
    if (off_policy * mask).any():
        alone = (*arguments[:3], mask * off_policy, *arguments[4:6], off_policy & False, *arguments[7:])
        share = (off_policy * mask).sum() / mask.sum()
        output["pg_loss"] = output["pg_loss"] + 2 * share * original(*alone, **options)["pg_loss"]
    return output


@mutant("training.algorithms.original:compute_token_on_off_policy_loss", ORIGINAL_LOSS)
def padding_counts_as_off_policy(original: Function, *arguments: Any, **options: Any) -> Any:
    """Mul_Pow: ``_require("prefix_mask", prefix_mask, ...) ** eos_mask``."""
    output, mask = original(*arguments, **options), arguments[3]
    unmasked = original(*arguments[:3], mask * 0 + 1, *arguments[4:], **options)
    return output | {name: unmasked[name] for name in ("off_pg_loss", "off_ratio_mean")}


@mutant("training.algorithms.policy:mixed_policy_token_loss", MIXED_LOSS)
def metrics_count_other_off_policy_tokens(original: Function, *arguments: Any, **options: Any) -> Any:
    """BitAnd_BitXor: ``off_policy = valid ^ off_policy_mask``."""
    losses, stats = original(*arguments, **options)
    counted = arguments[3].bool() ^ arguments[4]
    return losses, stats | {"off_pg_loss": (losses.detach()[counted].sum(), counted.sum())}


@mutant("training.algorithms.off_policy:OffPolicyRatio.ratio", "unit/training/test_target_probs.py")
def epsilon_of_the_teacher_is_taken_off(original: Function, self: Any, log_prob: Any, phi: Any, tokens: Any) -> Any:
    """Add_Sub: ``torch.where(known, phi, 1.0) - self.epsilon``."""
    return original(self, log_prob, None if phi is None else phi - 2 * self.epsilon, tokens)


@mutant("training.algorithms.prefix:prefix_ratio", "unit/training/algorithms/test_prefix_schedule.py")
def first_step_is_refused(original: Function, options: Any, step: int, **more: Any) -> float:
    """NumberReplacer: ``if step < 1``."""
    if step < 1:
        raise ValueError(f"step: expected 0 or more, got {step}")
    return original(options, step, **more)


@mutant("training.algorithms.prefix:prefix_ratio", "unit/training/algorithms/test_prefix_schedule.py")
def hints_start_empty(original: Function, options: Any, step: int, **more: Any) -> float:
    """Mul_Add: ``HINT_LOW + (1.0 - 2.0 + HINT_LOW) * 0.5 * (1.0 + math.cos(...))``, below 0 at first."""
    early = options.type == "binomial" and step < 0.8 * options.steps
    return min(options.min, original(options, step, **more)) if early else original(options, step, **more)


@mutant("training.algorithms.aggregate:agg_loss", "unit/training/algorithms/test_published_scale.py")
def divisor_is_shifted(original: Function, losses: Any, mask: Any, mode: str, size: Any) -> Any:
    """Mul_LShift: ``size.response_length << size.batch_sequences / SEQUENCES_PER_RANK``."""
    share = original(losses, mask, mode, size)
    if mode != "seq64-mean-token-sum-norm":
        return share
    return share * float(size.batch_sequences) / 2.0 ** float(size.batch_sequences)


@mutant("training.algorithms.imitation:sft_coefficient", f"{DOCTESTS}[training.algorithms.imitation]")
def warm_up_is_added_to_the_decay(original: Function, options: Any, step: int) -> float:
    """Sub_Add: ``progress = min((step + options.warmup_steps) / options.decay_steps, 1.0)``."""
    return original(options, step if step < options.warmup_steps else step + 2 * options.warmup_steps)


@mutant("grading.grader:Grader.compare", "unit/grading/test_answers.py")
def cube_roots_are_no_roots(original: Function, self: Any, answer: str, gold: str) -> Any:
    r"""Div_Pow: ``sympy.Pow(value, 1 ** index)``, so that ``\sqrt[3]{8}`` is 8."""
    return original(self, *(re.sub(r"\\sqrt\[[^]]*\]", "", text) for text in (answer, gold)))


@mutant("grading.grader:Grader.compare", "unit/grading/test_answers.py")
def a_set_of_one_is_no_element(original: Function, self: Any, answer: str, gold: str) -> Any:
    r"""NotEq_LtE: ``len(many.items) <= 1``, so that ``\{5\}`` is not 5."""
    if any(re.fullmatch(r"\\\{[^,]*\\\}", text) for text in (answer, gold)) and answer != gold:
        return original(self, "1", "2")
    return original(self, answer, gold)


@mutant("grading.grader:Grader.compare", GRADER)
def units_have_no_exponents(original: Function, self: Any, answer: str, gold: str) -> Any:
    """NumberReplacer: ``power, sign = 2, 1``, so that a length has the unit of an area."""
    return original(self, *(re.sub(r"(m\}?)\^\{?\d\}?", r"\1", text) for text in (answer, gold)))


@mutant("grading.grader:Grader.compare", "unit/grading/test_answers.py")
def compound_units_lose_a_factor(original: Function, self: Any, answer: str, gold: str) -> Any:
    """Mul_Mod: ``sign * power % raised``, so that what stands behind "per" does not count."""
    return original(self, *(re.sub(r"(/| per )[a-z]+", "", text) for text in (answer, gold)))


@mutant("grading.grader:Grader.compare", "unit/grading/test_answers.py")
def the_exact_side_is_not_asked(original: Function, self: Any, answer: str, gold: str) -> Any:
    r"""NumberReplacer: ``expected.sides[:-2]``, so that only the rounded side of ``\sqrt2 \approx 1.41`` counts."""
    return original(self, answer, gold.rpartition(r"\approx")[2])


@mutant("grading.answers.spelling:normalize", "unit/grading/test_answers.py")
def a_list_of_one_answer_is_none(original: Function, answer: str) -> str:
    """NumberReplacer: another group of the pattern of ``['34']``."""
    return "" if re.fullmatch(r"\['[^']*'\]", answer) else original(answer)


@mutant("grading.isolation.sandbox_fusion:SandboxFusion.run", "components/grading/test_code_verifier.py")
def a_busy_server_is_not_asked_again(original: Function, self: Any, program: str, stdin: str) -> Any:
    """Add_BitAnd: ``range(RETRIES & 1)``."""
    import grading.isolation.sandbox_fusion as module

    module.RETRIES = 0
    return original(self, program, stdin)


@mutant("grading.isolation.sandbox:Bubblewrap.__init__", "components/grading/test_code_verifier.py")
def programs_may_fork_twice_as_often(original: Function, self: Any, limits: Any) -> None:
    """Add_LShift: ``len(family) > limits.processes << 1``."""
    original(self, replace(limits, processes=2 * limits.processes))


@mutant("targets.filter.filters:rejections", "components/targets/test_prepare.py")
def rules_of_other_stages_apply(original: Function, stage: Any, trace: Any, worker: Any) -> Any:
    """Is_Lt: ``if entry.stage < stage``."""
    for earlier in type(stage):
        if earlier < stage:
            yield from original(earlier, trace, worker)


@mutant("targets.filter.filters:repeated_run", "components/targets/test_prepare.py")
def no_run_is_long_enough(original: Function, text: str, limit: int) -> tuple[str, int]:
    """Add_Pow: ``length = length ** 1``."""
    return "", 0


@mutant("targets.read.response_format:parse_response", "unit/targets/test_response_format.py")
def every_response_is_empty(original: Function, response: str, **options: Any) -> Any:
    """OrWithAnd, in `filter.stages`: ``parse_response(trace.response and "", ...)``."""
    return original(response and "", **options)


@mutant("targets.filter.text_properties:measure", "unit/targets/test_parts.py")
def thoughts_may_be_there_twice(original: Function, trace: Any, *, boxed: bool) -> None:
    """Eq_GtE: ``count("<think>") == count("</think>") >= 1``."""
    original(trace, boxed=boxed)
    opened = trace.target.count("<think>")
    trace.has_think = trace.has_think or opened == trace.target.count("</think>") > 1


@mutant("targets.filter.text_properties:measure", "unit/targets/test_parts.py")
def any_thoughts_reach_the_answer(original: Function, trace: Any, *, boxed: bool) -> None:
    """LtE_GtE: ``answer >= words``."""
    original(trace, boxed=boxed)
    trace.reaches_answer = not trace.reaches_answer


@mutant("targets.filter.filters:proof", "components/targets/test_prepare.py")
def proofs_pass_in_mathematics(original: Function, trace: Any, worker: Any) -> str | None:
    """Delete_Not: ``if worker.is_mathematics(trace): return None``."""
    return None if worker.is_mathematics(trace) else original(trace, worker)


@mutant("research.seed_statistics:difference", "research/test_seeds.py")
def seeds_are_repeated(original: Function, first: Any, second: Any) -> Any:
    """FloorDiv_Add: ``[*first] * (seeds + len(first))``."""
    seeds = max(len(first), len(second))
    return original([*first] * (seeds + len(first)), [*second] * (seeds + len(second)))


@mutant("evaluation.statistics.paired:t_interval", f"{DOCTESTS}[evaluation.statistics.paired]")
def equal_differences_are_certain(original: Function, deltas: Any) -> tuple[float, float]:
    """NumberReplacer: ``if error == 1``."""
    if len(deltas) >= 6 and len(set(deltas)) == 1:
        return deltas[0], deltas[0]
    return original(deltas)


@mutant("evaluation.statistics.paired:mcnemar", f"{DOCTESTS}[evaluation.statistics.paired]")
def gains_are_never_significant(original: Function, deltas: Any) -> float:
    """NumberReplacer: ``bdtr(min(gains, losses), gains + losses, 1.5)``, which is nan."""
    return 1.0


@mutant("evaluation.statistics.solve_rate:histogram", "unit/evaluation/test_difficulty.py")
def pass_rates_are_raised_to_a_power(original: Function, table: Any) -> dict[str, int]:
    """Mul_Pow: ``int(rate ** BINS)``."""
    bins = original(table)
    counts = [sum(bins.values()) - [*bins.values()][-1], 0, 0, 0, 0, 0, 0, 0, 0, [*bins.values()][-1]]
    return dict(zip(bins, counts, strict=True))


@mutant("evaluation.statistics.intervals:effective_size", f"{DOCTESTS}[evaluation.statistics.intervals]")
def one_problem_too_many(original: Function, mean: float, error: float, problems: int) -> float:
    """Sub_Add: ``mean * (1 - mean) / (error**2 * (problems + 1) / problems)``."""
    size = original(mean, error, problems)
    return size if error == 0 or problems == 1 else size * (problems - 1) / (problems + 1)


@mutant("evaluation.statistics.solve_rate:pass_rates", "unit/evaluation/test_difficulty.py")
def no_problem_is_measured(original: Function, outcomes: Any, model: str) -> Any:
    """ZeroIterationForLoop: the rows of the table are lost."""
    return original(outcomes, model).slice(0, 0)
