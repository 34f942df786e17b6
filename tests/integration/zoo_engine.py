"""The log-probabilities that vLLM finds for its own samples, and their sum for given ones, as JSON.

``python zoo_engine.py MODEL SEQUENCES``: the sequences are lists of tokens in JSON.
"""

import json
import sys

from evaluation.generation.engine import Engine, EngineOptions, EngineRequest

PROMPT = (5, 17, 101, 40, 23, 99, 7, 64, 12, 180, 33, 9)  # longer than the window of the tiny Gemma 3
TOKENS = 12
LONGEST = 40  # tokens of a given sequence

if __name__ == "__main__":
    options = EngineOptions(sys.argv[1], LONGEST, TOKENS, 1.0, 1.0, trust_remote_code=False, log_probs=True)
    engine, total = Engine(options), 0.0
    completions = dict(engine.complete([[EngineRequest(number, PROMPT, number + 1) for number in range(2)]]))
    from vllm import SamplingParams

    prompts = [{"prompt_token_ids": tokens} for tokens in json.loads(sys.argv[2])]
    for output in engine.llm.generate(prompts, SamplingParams(max_tokens=1, prompt_logprobs=0), use_tqdm=False):
        scored = zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:], strict=True)
        total += sum(scores[token].logprob for token, scores in scored)
    samples = [{"tokens": list(one.token_ids or ()), "log_probs": one.log_probs} for one in completions.values()]
    sys.stdout.write(f"\n{json.dumps({'samples': samples, 'log_probs': total})}\n")
