"""A job in the place of a training: ``python -m stand_in_job STEPS ENDING --request FILE``, for the backends' tests.

Tells STEPS events, then ends as ENDING says: a status, "mistake" or "hang".
"""

import sys
import time

from core.cli import exit_status
from core.errors import InputError
from core.machine.jsonl_tail import send_event


def main() -> int:
    steps, ending = int(sys.argv[1]), sys.argv[2]
    for step in range(1, steps + 1):
        send_event({"event": "step", "step": step})
    if ending == "hang":
        time.sleep(600)
    if ending == "mistake":
        raise InputError("targets t.parquet: no such file")
    return int(ending)


if __name__ == "__main__":
    sys.exit(exit_status(main))
