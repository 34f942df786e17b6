"""The asset training/policy: mixed-policy RL in the training interpreter."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.checks import Verdicts, check_keys, require_passed, verdicts
from assets.models import KEY as BASE
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.live_metrics import METRICS, StepObserver
from assets.shared.metadata import rounded
from assets.shared.profile import Luffy, profile_asset
from assets.shared.references import ModelReference, PolicyReference, TrainReference
from assets.shared.storage import Storage
from assets.shared.training_metadata import against_champion, curves, explanation, explanation_lines, samples
from assets.targets import TRAIN
from core import kinds
from core.files import read_json_lines
from core.metric_table import REWARD
from evaluation.promotion.champions import Registry
from training.settings import TrainingSettings

if TYPE_CHECKING:
    from training.job.request import TrainingRequest

POLICY = dg.AssetKey(["training", "policy"])
FAILED_CHECKS = "failed_checks"  # entry of the lineage: the checks that the targets failed, if that was ignored


@profile_asset(
    key=POLICY,
    group_name="training",
    kinds={"verl", "vllm", "pytorch"},
    pool="gpu",
    code_version=kinds.POLICY.code_version,
    ins={"train": dg.AssetIn(TRAIN), "base": dg.AssetIn(BASE)},
    description="The trained policy: a Hugging Face folder with lineage.json. It imitates targets, "
    "learns from rewards for its own answers, or both, as its recipe says. An interrupted run resumes, and a run with "
    "the same targets, base model and configuration is reused.",
)
def policy(
    context: dg.AssetExecutionContext,
    luffy: dg.ResourceParam[Luffy],
    train: TrainReference,
    base: ModelReference,
    storage: Storage,
    interpreter: TrainingInterpreter,
) -> dg.MaterializeResult[PolicyReference]:
    from core.model.lineage_file import parse_manifest
    from training.job.run_folder import RunFolder

    settings = luffy.settings.training
    checked = verdicts(context.instance, check_keys(luffy), train.digest)
    require_passed(checked, ignore=settings.ignore_checks)
    interpreter.executable()
    request = training_request(settings, train, base, upstream=upstream(context, train, base, checked)).complete()
    if unread := [text for text in settings.overrides if text not in request.overrides]:
        context.log.info(f"left out, because recipe {settings.recipe} has no rollouts: {', '.join(unread)}")
    out = storage.result("training", "policy", request.identity(), complete="policy")
    observer = StepObserver(context, luffy.names.key(METRICS))
    if RunFolder(out).answers(request):
        observer.reused = True
        if line := kinds.POLICY.reused(out, parse_manifest(out / "policy").code.digest):
            context.log.warning(line)
    else:
        request = request.model_copy(update={"out": out, **interpreter.placement(context)})
        with storage.writable():
            file = request.write(RunFolder(out).request)
        interpreter.run(
            context, ["training", "--request", str(file)], observer, lambda: RunFolder(out).kept("materialize again")
        )
    return _result(context, settings, observer, out, train, base, Registry(storage.path))


def training_request(
    settings: TrainingSettings, train: TrainReference, base: ModelReference, **more: Any
) -> "TrainingRequest":
    """Return the request of a training with the settings that its recipe reads, and ``more`` of its fields."""
    from training.config.overrides import read_by
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
    from core.model.lineage_file import read_manifest
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
            "verdict": " ".join(explanation_lines(out)),
            **curves(records),
            **explanation(out),
            **samples(out / "rollouts"),
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
        },
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
