"""The asset training/policy: mixed-policy RL in the training interpreter."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.checks import Verdicts, check_keys, require_passed, verdicts
from assets.models import KEY as BASE
from assets.shared.failures import user_errors
from assets.shared.gpu_slot import TAG, gpu_slot
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.live_metrics import METRICS, StepObserver
from assets.shared.luffy import IO_MANAGER, Luffy
from assets.shared.metadata import rounded
from assets.shared.references import ModelReference, PolicyReference, TrainReference
from assets.shared.training_metadata import against_champion, curves, explanation, explanation_lines, numbers, samples
from assets.targets import TRAIN
from core import kinds
from core.files import read_json_lines
from core.metric_table import REWARD
from core.model.lineage_file import parse_manifest, read_manifest
from evaluation.promotion.champions import Registry
from training.config.overrides import read_by
from training.settings import TrainingSettings

if TYPE_CHECKING:
    from training.job.request import TrainingRequest

POLICY = dg.AssetKey(["training", "policy"])
FAILED_CHECKS = "failed_checks"  # entry of the lineage: the checks that the targets failed, if that was ignored


def retrain_on_new_targets() -> dg.AutomationCondition[Any]:
    """Train when an input's content has changed, its blocking checks pass, and no input is in progress.

    `AutomationCondition.eager` would also retrain after a materialization with identical data.
    """
    condition = dg.AutomationCondition
    return (
        condition.any_deps_match(condition.data_version_changed()).since_last_handled()
        & condition.all_deps_blocking_checks_passed()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label("retrain_on_new_targets")


@dg.asset(
    key=POLICY,
    io_manager_key=IO_MANAGER,
    group_name="training",
    kinds={"verl", "vllm", "pytorch"},
    tags=TAG,
    code_version=kinds.POLICY.code_version,
    ins={"train": dg.AssetIn(TRAIN), "base": dg.AssetIn(BASE)},
    automation_condition=retrain_on_new_targets(),
    description="The trained policy: a Hugging Face folder with lineage.json. It imitates targets, "
    "learns from rewards for its own answers, or both, as its recipe says. An interrupted run resumes, and a run with "
    "the same targets, base model and configuration is reused.",
)
def policy(
    context: dg.AssetExecutionContext,
    luffy: dg.ResourceParam[Luffy],
    train: TrainReference,
    base: ModelReference,
    luffy_interpreter: TrainingInterpreter,
) -> dg.MaterializeResult[PolicyReference]:
    from training.job.run_folder import RunFolder

    with user_errors(context):
        storage = luffy.storage
        settings = luffy.settings.training
        checked = verdicts(context.instance, check_keys(luffy), train.digest)
        require_passed(checked, ignore=settings.ignore_checks)
        luffy_interpreter.executable()
        request = training_request(settings, train, base, upstream=upstream(context, train, base, checked)).complete()
        out = storage.result("training", "policy", request.identity(), complete="policy")
        observer = StepObserver(context, luffy.names.key(METRICS))
        folder = RunFolder(out)
        with nullcontext() if folder.answers(request) else gpu_slot(context):
            if folder.answers(request):  # or another run has made it while this one waited
                observer.reused = True
                if line := kinds.POLICY.reused(out, parse_manifest(out / "policy").code.digest):
                    context.log.warning(line)
            else:
                request = request.model_copy(update={"out": out, **luffy_interpreter.placement(context)})
                with storage.writable():
                    file = request.write(folder.request)
                luffy_interpreter.run(
                    context, ["training", "--request", str(file)], observer, lambda: folder.kept("materialize again")
                )
        return _result(context, settings, observer, out, train, base, Registry(storage.path))


def training_request(
    settings: TrainingSettings, train: TrainReference, base: ModelReference, **more: Any
) -> "TrainingRequest":
    """Return the request of a training with the settings that its recipe reads, and ``more`` of its fields."""
    from training.job.request import TrainingRequest

    chosen = settings.model_dump(include={"recipe", "hardware", "seed"})
    overrides, _ = read_by(settings.recipe, settings.overrides)
    files = {"targets": train.path, "model": base.path, "heldout": train.heldout, "out": "."}
    return TrainingRequest.model_validate({**chosen, "overrides": overrides, **files, **more})


def _result(
    context: dg.AssetExecutionContext,
    settings: TrainingSettings,
    observer: StepObserver,
    out: Path,
    train: TrainReference,
    base: ModelReference,
    registry: Registry,
) -> dg.MaterializeResult[PolicyReference]:
    """Return the policy in the run folder ``out``, with the metadata that the UI shows of its training."""
    from training.job.run_folder import RunFolder

    folder = Path(observer.policy or out / "policy")
    manifest = read_manifest(folder)
    digest = manifest.checkpoint_digest
    records = read_json_lines(RunFolder(out).metrics)
    reward = records[-1]["data"].get(REWARD) if records else None
    reached = "" if reward is None else f", reward {reward:.2f}"
    context.log.info(f"{'reused: ' if observer.reused else ''}{manifest.steps} steps{reached}, policy {folder}")
    reference = PolicyReference(path=str(folder), digest=digest, base=base.digest, metrics=str(RunFolder(out).metrics))
    return reference.result(
        {
            "verdict": ". ".join(explanation_lines(out)),
            **curves(records),
            **explanation(out),
            **samples(out / "rollouts"),
            **numbers(records),
            **against_champion(registry, digest, records),
            "recipe": settings.recipe,
            "steps": manifest.steps,
            "targets": train.rows,
            "reused": observer.reused,
            "device-hours": rounded(manifest.device_hours),
            "seed": settings.seed,
            "hardware": settings.hardware,
            "attempts": manifest.attempts,
            "folder": dg.MetadataValue.path(str(folder)),
            "run folder": dg.MetadataValue.path(str(out)),
            "lineage": dg.MetadataValue.json({k: v for k, v in manifest.to_json().items() if k != "config"}),
            "configuration": dg.MetadataValue.json(manifest.config),
        }
    )


def upstream(
    context: dg.AssetExecutionContext, train: TrainReference, base: ModelReference, checked: Verdicts
) -> dict[str, Any]:
    """Return what the checkpoint's manifest says about the origin of its inputs, without paths of one machine."""
    return {
        "dagster_run": context.run_id,
        "targets": train.model_dump(exclude={"path", "profile", "previous", "heldout"}),
        **({FAILED_CHECKS: sorted(checked.failed)} if checked.failed else {}),
        **({"unevaluated_checks": sorted(checked.unevaluated)} if checked.unevaluated else {}),
        "base_model": base.model_dump(exclude={"path"}, exclude_none=True),
    }
