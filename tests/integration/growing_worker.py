"""A worker program whose comparisons keep memory, for the test that such a worker is replaced."""

import sys

from grading.worker_program import RENEWED_BYTES, serve

KEPT: list[bytearray] = []


def compare(answer: str, gold: str) -> tuple[str, str]:
    """Keep more memory than a worker may grow by, if the answer is "grow"."""
    if answer == "grow":
        KEPT.append(bytearray(RENEWED_BYTES + (8 << 20)))
    return "correct" if answer == gold else "wrong", str(len(KEPT))


if __name__ == "__main__":
    serve(float(sys.argv[1]), lambda: compare)
