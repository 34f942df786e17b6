"""The same training by TRL's SFTTrainer; several ranks are started by torchrun."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer  # pyright: ignore[reportMissingImports]  # requirements/baseline.lock

from core.files import write_json
from research.baseline.setting import Request


def main(request: Request) -> None:
    """Write the updates and the trained model."""
    setting, cut, out = request.setting, request.cut, Path(request.out)
    rows = [
        {
            "input_ids": [*row.prompt, *row.response],
            "completion_mask": [0] * len(row.prompt) + [1] * len(row.response),
        }
        for row in request.examples()
    ]
    arguments: Any = SFTConfig(
        output_dir=str(out / "trainer"),
        max_steps=setting.steps,
        per_device_train_batch_size=setting.batch // cut.accumulation // cut.ranks,
        gradient_accumulation_steps=cut.accumulation,
        learning_rate=setting.lr,
        weight_decay=0.0,
        max_grad_norm=setting.clip,
        lr_scheduler_type="constant",
        train_sampling_strategy="sequential",
        completion_only_loss=True,
        padding_free=cut.packed,
        max_length=None,
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=True,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer: Any = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(request.model, dtype=torch.float32),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(request.model),
    )
    trainer.train()
    if int(os.environ.get("RANK", "0")) == 0:
        logged = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
        trainer.model.save_pretrained(out / "policy")
        write_json([[float(entry["loss"]), float(entry["grad_norm"])] for entry in logged], out / "updates.json")


if __name__ == "__main__":
    main(Request.read(sys.argv[1]))
