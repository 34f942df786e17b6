"""What the trainer keeps beside verl's files goes into a checkpoint and comes back."""

from pathlib import Path
from time import sleep

import pytest
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from training.config.to_verl import compose_run
from training.job.checkpoints import damage, folder_of, latest_step
from training.verl_hooks import trainer as module
from training.verl_hooks.trainer import MixedPolicyTrainer


def trainer(run: Path, monkeypatch: pytest.MonkeyPatch) -> MixedPolicyTrainer:
    """A trainer before its workers start, at step 2; verl's own part of a checkpoint is empty."""

    def start(self: PPOTrainer, config: object) -> None:
        self.config, self.global_steps, self.timing_raw = config, 2, {}
        self._init_dump_executor()

    monkeypatch.setattr(PPOTrainer, "__init__", start)
    monkeypatch.setattr(PPOTrainer, "_load_checkpoint", lambda self: None)
    checkpoint = folder_of(run / "checkpoints", 2)
    monkeypatch.setattr(PPOTrainer, "_save_checkpoint", lambda self: checkpoint.mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(module, "require_disk", lambda config: None)  # which reads the model
    return MixedPolicyTrainer(compose_run("exgrpo", "cpu", ["method.replay.start=0.0"], run=run))


def test_a_checkpoint_is_complete_when_the_samples_of_its_step_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed before resumes from the checkpoint before, so that no step is without its records."""
    saved, checkpoints, written = trainer(tmp_path, monkeypatch), tmp_path / "checkpoints", []
    saved._dump_futures.append(
        saved._dump_executor.submit(lambda: (sleep(0.2), written.append(latest_step(checkpoints))))
    )
    saved._save_checkpoint()
    assert latest_step(checkpoints) == 0
    saved.on_step_begin()
    saved._completer.wait()
    assert (latest_step(checkpoints), written) == (2, [0])
    assert saved.timing_raw["save_checkpoint"] > 0.1


def test_a_store_that_was_changed_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = trainer(tmp_path, monkeypatch)
    saved._save_checkpoint()
    saved._shutdown_dump_executor()
    store = folder_of(tmp_path / "checkpoints", 2) / "replay.parquet"
    assert damage(tmp_path / "checkpoints", 2) == ""
    store.write_bytes(store.read_bytes()[:-1])
    assert store.name in damage(tmp_path / "checkpoints", 2)
