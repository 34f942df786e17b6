#!/usr/bin/env bash
# Look up every package of the locks in OSV, a public database of vulnerabilities. Exit status: 0 nothing is known against
# any of them, 1 something is (the packages are listed), 2 OSV did not answer for all of them, so nothing is certain.
set -uo pipefail
cd "$(dirname "$0")"
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
../.venv-audit/bin/pip-audit --vulnerability-service osv --strict --progress-spinner off --disable-pip --no-deps \
  $(printf -- '-r %s ' *.lock) -r <(sed 's/+cpu$//' torch-cpu.txt) 2>"$errors"
status=$?
if grep -qE "^(Traceback|ERROR)" "$errors"; then
  echo "error: make audit: OSV could not be asked about every package, so none counts as checked; run it again where" \
    "api.osv.dev can be reached. The reason: $(grep -vE '^(WARNING| )' "$errors" | tail -1)" >&2
  exit 2
fi
exit "$status"
