"""The embedded base model: a tiny byte-level Qwen2 that can work out an expression in writing but rarely does.

``tokenizer`` has one token per byte, ``problem_mix`` says what the model learns, and ``recipe.yaml`` how long.
``python -m training.embedded_model --out DIR`` trains it; ``model/`` is the result, and ``making.json`` has the
measurements.
``resolve_model`` turns the name of any base model into a checked folder.
"""
