"""A process in the place of the trainer: ``python -m stand_in_job STEPS ENDING``, for the tests of the backends.

Writes STEPS records as verl's logger does, then ends as ENDING says: a status, "error", "hang" or "family" (with one).
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    steps, ending = int(sys.argv[1]), sys.argv[2]
    if ending == "family":  # as Ray's processes: in a session of its own
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    with Path(os.environ["VERL_FILE_LOGGER_PATH"]).open("w") as file:
        for step in range(1, steps + 1):
            file.write(json.dumps({"step": step, "data": {"timing_s/step": 30, "reward/on_policy": step / 4}}) + "\n")
            file.flush()
    if ending in ("hang", "family"):
        sys.stderr.write("waiting for a rank that is gone\n")
        time.sleep(600)
    if ending == "error":
        raise RuntimeError("the batch was empty")
    sys.exit(int(ending))


if __name__ == "__main__":
    main()
