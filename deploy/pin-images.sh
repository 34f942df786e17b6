#!/usr/bin/env bash
# Pin the public images that the Dockerfile and compose name to the digests that their tags have in the registry:
# python:3.11-slim-bookworm@sha256:…; commit the change.
set -euo pipefail
cd "$(dirname "$0")"
files=(Dockerfile compose.yaml)
if ! docker buildx version >/dev/null 2>&1; then
  echo "error: make pin-images: docker with buildx is not installed here; run it on a machine that has it" >&2
  exit 2
fi
for image in $(grep -ohE '\b(python|postgres):[a-z0-9.-]+' "${files[@]}" | sort -u); do
  digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")
  sed -i -E "s|\\b${image//./\\.}(@sha256:[0-9a-f]{64})?([^a-z0-9.-]\|$)|$image@$digest\2|" "${files[@]}"
  echo "$image@$digest"
done
