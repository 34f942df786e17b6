"""Write clock.jsonl: questions about times of day, their answers, and responses that work them out."""

import json
import random

random.seed(0)
with open("clock.jsonl", "w") as file:
    for _ in range(200):
        start, later = random.randrange(0, 24 * 60, 5), random.randrange(5, 180, 5)
        end = (start + later) % (24 * 60)
        answer = f"{end // 60}:{end % 60:02}"
        thoughts = f"{start}+{later}={start + later}"
        row = {
            "problem": f"{start // 60}:{start % 60:02} and {later} minutes",
            "answer": answer,
            "response": f"<think>\n{thoughts}\n</think>\n\n{answer}",
        }
        file.write(json.dumps(row) + "\n")
