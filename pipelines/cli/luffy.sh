#!/bin/sh
# The command `luffy`. `make setup` copies this file into .venv/bin: the project is two folders above the copy.
set -e
self=$0
[ ! -L "$self" ] || self=$(readlink -f "$self")
project=$(CDPATH='' cd -- "$(dirname -- "$self")/../.." && pwd)
export PYTHONPATH="$project${PYTHONPATH:+:$PYTHONPATH}"
exec "$project/.venv/bin/python" -m pipelines.cli.luffy "$@"
