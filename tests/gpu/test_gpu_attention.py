"""Attention kernels on a CUDA device: packed sequences, forward and backward, against each sequence alone."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from core.model.base_model import SHIPPED
from training.diagnosis.machine import APART, KERNEL
from training.resources.attention import KERNELS, installed_kernels

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "eager"])
def test_packed_sequences_agree_with_each_of_them_alone(kernel: str) -> None:
    if kernel not in installed_kernels():
        pytest.skip(f"{kernel}: its package is not installed")
    if kernel == "flash_attention_4" and torch.cuda.get_device_capability()[0] not in (9, 10, 11):
        pytest.skip(f"{kernel} needs Hopper or Blackwell")
    command = [sys.executable, "-c", KERNEL, str(SHIPPED), kernel]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert max(float(line.split()[-1]) for line in done.stdout.splitlines()[-2:]) < APART, done.stdout
