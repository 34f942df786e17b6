"""Faults that were written by hand: one for each kind of mistake in each package, and a wrong number of each recipe."""

import re
from typing import Any

from planting import Function, mutant

FORMULAS = "unit/training/algorithms"
DOCTESTS = "unit/test_doctests.py::test_the_examples_are_true"
PUBLISHED = (
    "unit/training/test_published_values.py::test_a_recipe_composes_its_published_numbers_but_for_those_with_a_reason"
)
FILES, PROMOTION = "unit/core/test_files.py", "unit/evaluation/test_promotion.py"


# core


@mutant("core.files:atomic_write", FILES)
def a_file_is_seen_half_written(original: Function, path: Any) -> Any:
    yield path


@mutant("core.files:measure", FILES)
def an_unchanged_time_is_reported(original: Function, path: Any) -> Any:
    return original(path)[0], path.lstat().st_mtime


@mutant("core.code_digest:identity", "unit/core/test_code.py")
def an_identity_misses_a_part(original: Function, *parts: Any) -> str:
    return original(*parts[:-1])


@mutant("core.text.secrets:redact", "unit/core/test_secrets.py")
def secrets_stay(original: Function, text: str, environment: Any = None) -> str:
    return text


@mutant("core.text.markdown:escape_markdown", "unit/core/test_markdown.py")
def markdown_is_not_escaped(original: Function, text: str) -> str:
    return " ".join(text.split())


@mutant("core.cli:printable", "unit/core/test_printable.py")
def control_characters_reach_the_terminal(original: Function, text: str) -> str:
    return text


@mutant("core.text.parse:parse_json", "unit/core/test_parse.py")
def a_key_may_stand_twice(original: Function, content: Any, where: str, *, unique: bool = False) -> Any:
    return original(content, where)


@mutant("core.machine.jsonl_tail:RecordFile.new_records", "unit/core/test_jsonl_tail.py")
def records_are_read_twice(original: Function, self: Any) -> Any:
    self._offset = 0
    return original(self)


@mutant("core.progress:clock", "unit/core/test_progress.py")
def time_left_is_in_minutes(original: Function, seconds: float) -> str:
    return original(seconds / 60)


@mutant("core.cli:exit_status", "components/evaluation/test_commands.py")
def errors_are_swallowed(original: Function, work: Function) -> int:
    original(work)
    return 0


@mutant("core.backends.attempts:hold", "unit/training/test_run_files.py")
def a_folder_is_not_locked(original: Function, folder: Any, what: str, say: Function) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    yield


@mutant("core.model.prompts:render_target", "unit/training/test_rendering.py")
def a_target_has_no_end_token(original: Function, prompt: str, target: str, eos: str | None) -> str:
    return original(prompt, target, None)


# grading


@mutant("grading.answers.extraction:answer_part", "unit/grading/test_grader.py")
def thoughts_that_never_close_may_answer(original: Function, text: str, *, thinking: bool) -> str | None:
    return original(text, thinking=False)


@mutant("grading.verdict:Grade.of_score", "unit/grading/verifiers/test_values.py")
def the_threshold_itself_is_not_enough(
    original: Function, cls: Any, score: float, extracted: Any, reason: str, *, threshold: float = 1.0
) -> Any:
    return original(cls, score, extracted, reason, threshold=threshold + 1e-9)


@mutant("grading.verifiers.verifier:Verifier.verify", "unit/grading/verifiers/test_simple_types.py")
def a_cut_response_is_graded(original: Function, self: Any, response: str, gold: str, **options: Any) -> Any:
    return original(self, response, gold, **{**options, "truncated": False})


@mutant("grading.graded_table:grade_table", "unit/grading/test_graded_table.py")
def a_sample_is_graded_twice(original: Function, *arguments: Any, **options: Any) -> Any:
    graded = original(*arguments, **options)
    return graded.take([0, *range(graded.num_rows)])


@mutant("grading.contamination:overlaps", "unit/grading/test_contamination.py")
def the_last_benchmark_problem_is_not_compared(original: Function, problems: list[str], benchmark: Any) -> Any:
    return original(problems, benchmark.slice(0, benchmark.num_rows - 1))


@mutant("grading.grader:Grader.compare", "unit/grading/test_grader.py")
def the_order_of_a_tuple_is_free(original: Function, self: Any, answer: str, gold: str) -> Any:
    pair = re.fullmatch(r"\(([^,()]*),([^,()]*)\)", answer)
    return original(self, gold if pair and f"({pair[2]},{pair[1]})" == gold else answer, gold)


# targets


@mutant("targets.select.selection:quotas", "components/targets/test_sources_with_settings.py")
def caps_of_sources_are_not_read(original: Function, available: Any, sources: Any) -> list[int]:
    return original(available, [source.model_copy(update={"cap": None}) for source in sources])


@mutant("targets.select.split:select_train", "unit/targets/test_parts.py")
def nothing_is_held_out(original: Function, *arguments: Any, heldout_share: float = 0.0, **options: Any) -> Any:
    return original(*arguments, heldout_share=0.0, **options)


@mutant("targets.read.csv_rows:csv_rows", "unit/targets/test_csv_files.py")
def the_last_row_is_lost(original: Function, *arguments: Any) -> Any:
    rows = list(original(*arguments))
    yield from rows[:-1]


@mutant("targets.filter.decisions:in_order", "unit/targets/test_parts.py")
def a_lost_row_is_not_noticed(original: Function, batches: Any, piece: Any) -> Any:
    for traces in batches:
        yield from traces


@mutant("targets.filter.decisions:DecisionCache.has", "components/targets/test_source_verifiers.py")
def failed_decisions_are_kept(original: Function, self: Any, piece: Any) -> bool:
    return self.path(piece).exists()


@mutant("targets.select.dedupe:problem_digest", "components/targets/test_prepare.py")
def every_spelling_is_another_problem(original: Function, problem: str) -> str:
    return original(f"{problem}{id(problem)}")


@mutant("targets.read.response_format:parse_response", "unit/targets/test_response_format.py")
def markers_may_repeat(original: Function, text: str, **options: Any) -> Any:
    thoughts, end, answer = text.rpartition("</think>")
    once = f"<think>{re.sub('</?think>', '', thoughts)}{end}{answer}" if thoughts.count("<think>") > 1 else text
    return original(once, **options)


# evaluation


@mutant("evaluation.statistics.benchmark_scores:pass_at_k", "unit/evaluation/test_statistics.py")
def pass_at_k_is_biased(original: Function, solved: dict[str, list[bool]], k: int) -> float:
    return sum(1 - (1 - sum(right) / len(right)) ** k for right in solved.values()) / len(solved)


@mutant("evaluation.statistics.benchmark_scores:majority_at_k", "unit/evaluation/test_statistics.py")
def ties_go_to_the_first_answer(original: Function, graded: Any) -> float:
    import pyarrow as pa

    rows = {row["id"]: row for row in reversed(graded.to_pylist())}
    return original(pa.Table.from_pylist(list(rows.values()), graded.schema))


@mutant("evaluation.promotion.champions:Registry.is_new", PROMOTION)
def a_test_may_spend_its_level_twice(original: Function, self: Any, test: str) -> bool:
    return True


@mutant("evaluation.promotion.promotion_rules:allowed_losses", PROMOTION)
def losses_of_champions_add_up(
    original: Function, registry: Any, champion: Any, base: str, suite: Any, limit: float
) -> dict[str, float]:
    return original(registry, None, base, suite, limit)


@mutant("evaluation.generation.sample_cache:SampleCache.__init__", "unit/evaluation/test_sample_cache.py")
def samples_of_other_settings_count(original: Function, self: Any, root: Any, group: Any, **options: Any) -> None:
    original(self, root, {"log_probs": group.get("log_probs")}, **options)


@mutant("evaluation.report.html_page:environment", "unit/evaluation/test_scorecard.py")
def texts_of_a_page_are_not_escaped(original: Function) -> Any:
    result = original()
    result.autoescape = False
    return result


@mutant("evaluation.report.table:signed", "unit/evaluation/test_table.py")
def points_are_shares(original: Function, share: float) -> str:
    return original(share / 100)


# assets


@mutant(
    "assets.checks:require_passed",
    "defs/test_target_checks.py::test_a_training_alone_looks_at_the_checks_of_the_version_that_it_reads",
)
def unchecked_targets_are_trained_on(original: Function, found: Any, *, ignore: bool) -> None:
    return None


@mutant(
    "assets.registry.retention:why_not_now",
    "defs/test_retention.py::test_nothing_goes_while_a_run_is_queued_or_under_way",
)
def outputs_go_while_a_run_uses_them(original: Function, instance: Any, own: str | None = None) -> str | None:
    return None


@mutant("assets.generated:generated_asset", "defs/test_generated.py")
def a_local_teacher_takes_no_slot_of_the_gpu(original: Function, teacher: Any) -> Any:
    return original(teacher.model_copy(update={"teacher": "teacher@http://127.0.0.1/v1"}))


@mutant("assets.shared.live_metrics:observed", "defs/test_training_views.py")
def the_last_step_is_not_observed(original: Function, step: int, total: int) -> bool:
    return step < total and original(step, total)


@mutant("assets.shared.metadata:cell", "defs/test_security.py")
def cells_of_the_ui_are_not_escaped(original: Function, value: Any) -> str:
    return str(value)


# pipelines


@mutant("pipelines.definitions.notices:send", "defs/test_notices.py")
def one_dead_address_silences_the_others(original: Function, settings: Any, notice: Any, *more: Any) -> list[str]:
    return []


@mutant("core.settings:profile_layers", "defs/test_settings.py")
def the_base_of_a_profile_is_not_read(original: Function, *arguments: Any) -> list[Any]:
    return original(*arguments)[-1:]


@mutant("core.settings:variable_layers", "defs/test_settings.py")
def variables_are_not_read(original: Function, root: Any) -> list[Any]:
    return [*original(root)][:0]


@mutant("pipelines.definitions.dead_runs:end_dead_runs", "defs/test_dead_runs.py")
def dead_runs_keep_their_slots(original: Function, instance: Any, lost: Any = ()) -> list[str]:
    return []


@mutant(
    "pipelines.definitions.source_watch:SourceState.observe",
    "defs/test_sensors.py::test_changed_content_is_prepared_once",
)
def changed_sources_are_not_seen(original: Function, self: Any, config: Any) -> Any:
    return self if self.digest else original(self, config)


# training: numbers of recipes


def recipe_number(fault: str, recipe: str, key: str, value: Any) -> None:
    """Enter a fault: ``recipe`` composes another value of ``key``."""

    def wrong(original: Function, name: str, *arguments: Any, **options: Any) -> Any:
        from omegaconf import OmegaConf

        config = original(name, *arguments, **options)
        if name == recipe:
            OmegaConf.update(config, key, value)
        return config

    wrong.__name__ = fault
    mutant("training.config.to_verl:compose_run", f"{PUBLISHED}[{recipe}]")(wrong)


recipe_number("chord_mu_decays_over_100_steps", "chord_mu", "method.imitation.decay_steps", 100)
recipe_number("chord_phi_weighs_by_p", "chord_phi", "method.imitation.weight", "p")
recipe_number("relift_clips", "relift", "method.on_policy.clip", {})
recipe_number("hpt_learns_at_1e_6", "hpt", "actor_rollout_ref.actor.optim.lr", 1e-6)
recipe_number("hpt_skips_no_step", "hpt", "method.skip_grad_norm", None)
recipe_number("pope_shows_all_samples", "pope", "method.prefix.n", 8)
recipe_number("cispo_clips_at_4", "cispo", "method.on_policy.clip.high", 3.0)


# training: formulas


@mutant("training.algorithms.replay:bucket_weight", f"{FORMULAS}/test_replay.py")
def replay_is_narrower(original: Function, successes: int, n: int) -> float:
    return original(successes, n) ** 2


@mutant("training.algorithms.on_policy:Cispo.losses", "unit/training/test_published_recipes.py")
def cispo_does_not_clip(original: Function, self: Any, log_prob: Any, old: Any, loss_per_ratio: Any, *more: Any) -> Any:
    return loss_per_ratio * (log_prob - old).exp().detach() * log_prob, None


@mutant("training.methods.exgrpo:Exgrpo.choose", f"{FORMULAS}/test_replay.py")
def the_least_sure_sample_is_replayed(original: Function, self: Any, tools: Any, prompts: int) -> Any:
    entropies = tools.entropies
    tools.entropies = lambda answers: [-entropy for entropy in entropies(answers)]
    return original(self, tools, prompts)


@mutant("training.methods.relift:Relift.after_update", f"{FORMULAS}/test_methods.py")
def the_oldest_prompts_come_first(original: Function, self: Any, tools: Any) -> Any:
    self._unsolved.reverse()
    return original(self, tools)


@mutant("training.algorithms.srft:supervised_scale", f"{DOCTESTS}[training.algorithms.srft]")
def unsure_targets_weigh_more(original: Function, entropy: Any, *sign: Any) -> Any:
    return original(-entropy, *sign)


@mutant(
    "training.algorithms.teacher:teacher_advantage",
    f"{DOCTESTS}[training.algorithms.teacher]",
)
def the_policy_leaves_its_teacher(original: Function, log_prob: Any, teacher: Any, *more: Any) -> Any:
    return original(teacher, log_prob, *more)


@mutant("training.methods.guided:Guided.see", "components/training/test_off_policy_schedule.py")
def a_target_solves_its_prompt(original: Function, self: Any, prompts: Any, solved: Any, on_policy: Any) -> None:
    original(self, prompts, solved, [True] * len(prompts))


@mutant("training.algorithms.original:compute_sft_pure_loss", f"{DOCTESTS}[training.algorithms.original]")
def the_supervised_loss_has_the_wrong_sign(original: Function, log_prob: Any, eos_mask: Any) -> Any:
    return -original(log_prob, eos_mask)


@mutant("training.algorithms.advantage:group_advantage", f"{FORMULAS}/test_group_advantage.py")
def the_baseline_has_the_target(original: Function, scores: Any, index: Any, on_policy: Any, *more: Any) -> Any:
    return original(scores, index, on_policy | True, *more)


@mutant("training.algorithms.correction:rollout_correction", f"{FORMULAS}/test_rollout_correction.py")
def the_ratio_is_turned_over(original: Function, old: Any, rollout: Any, *more: Any) -> Any:
    return original(rollout, old, *more)


@mutant("training.algorithms.prompt_order:easy_first", "components/training/test_off_policy_schedule.py")
def the_end_of_an_epoch_fills_no_batch(original: Function, pass_rates: Any, batch: int, seed: int) -> list[int]:
    return original(pass_rates, 1, seed)


@mutant("training.methods.exgrpo:Exgrpo.begin_epoch", f"{FORMULAS}/test_replay.py")
def retired_prompts_stay_in_the_dataset(original: Function, self: Any, prompts: int, batch: int) -> None:
    return None


# training: runs


@mutant("training.job.records.metrics_log:merge_attempts", "unit/training/test_run_files.py")
def a_repeated_step_counts_twice(original: Function, attempts: Any, **options: Any) -> Any:
    return [record for attempt in attempts for record in original([attempt], **options)]


@mutant("training.job.checkpoints:damage", "unit/training/test_checkpoints.py")
def a_damaged_checkpoint_is_resumed(original: Function, checkpoints: Any, step: int) -> str:
    return ""


@mutant("training.job.checkpoints:latest_step", "unit/training/test_checkpoints.py")
def a_run_resumes_from_its_first_checkpoint(original: Function, checkpoints: Any) -> int:
    from training.job.checkpoints import complete_steps

    return min(complete_steps(checkpoints), default=0)


@mutant("training.job.checkpoints:best_step", "unit/training/test_validation.py")
def the_worst_checkpoint_is_the_best(original: Function, checkpoints: Any) -> int | None:
    from training.job.checkpoints import complete_steps, scores

    known = scores(checkpoints)
    scored = [(known[step], step) for step in complete_steps(checkpoints) if step in known]
    return min(scored)[1] if scored else None


@mutant("training.verl_hooks.reward:require_few_errors", "unit/training/test_source_rewards.py")
def failing_verifiers_are_ignored(original: Function, *arguments: Any) -> None:
    return None


@mutant("training.methods.exgrpo:Exgrpo.load", f"{FORMULAS}/test_replay.py")
def a_resumed_store_lacks_a_prompt(original: Function, self: Any, folder: Any) -> None:
    original(self, folder)
    self._stored.pop(next(iter(self._stored), None), None)
