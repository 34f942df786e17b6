"""The log-probabilities that vLLM finds for its own samples: ``python zoo_engine.py MODEL`` prints them as JSON."""

import json
import sys

from evaluation.generation.engine import Engine, EngineOptions, EngineRequest

PROMPT = (5, 17, 101, 40, 23, 99, 7, 64, 12, 180, 33, 9)  # longer than the window of the tiny Gemma 3
TOKENS = 12

if __name__ == "__main__":
    options = EngineOptions(sys.argv[1], len(PROMPT), TOKENS, 1.0, 1.0, trust_remote_code=False, log_probs=True)
    completions = dict(Engine(options).complete([[EngineRequest(number, PROMPT, number + 1) for number in range(2)]]))
    samples = [{"tokens": list(one.token_ids or ()), "log_probs": one.log_probs} for one in completions.values()]
    sys.stdout.write(f"\n{json.dumps({'samples': samples})}\n")
