"""Times of day: the closer, the better."""

import re

TIME = re.compile(r"\b(\d{1,2}):(\d\d)\b")
DAY = 24 * 60  # minutes


def score(data_source, solution_str, ground_truth, extra_info=None, tolerance=30):
    """1 for the gold time, and less the further the last time of the answer is from it: 0 at ``tolerance`` minutes."""
    times = TIME.findall(solution_str.rpartition("</think>")[2])
    if not times:
        return {"score": 0.0, "reason": "no time"}
    hours, minutes = TIME.fullmatch(ground_truth).groups()
    apart = abs(int(times[-1][0]) * 60 + int(times[-1][1]) - int(hours) * 60 - int(minutes)) % DAY
    return {"score": max(0.0, 1 - min(apart, DAY - apart) / tolerance), "pred": ":".join(times[-1])}
