"""Write clock.jsonl: questions about times of day, their answers, and responses that work them out."""

import json
import random

random.seed(0)
with open("clock.jsonl", "w") as file:
    times = [(start, later) for start in range(0, 24 * 60, 5) for later in range(5, 180, 5)]
    for start, later in random.sample(times, 200):
        end = (start + later) % (24 * 60)
        answer = f"{end // 60}:{end % 60:02}"
        thoughts = f"{start}+{later}={start + later}"
        row = {
            "problem": f"{start // 60}:{start % 60:02} and {later} minutes",
            "answer": answer,
            "response": f"<think>\n{thoughts}\n</think>\n\n{answer}",
        }
        file.write(json.dumps(row) + "\n")
