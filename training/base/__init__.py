"""The embedded base model: a tiny byte-level Qwen2 that can work out an expression in writing but rarely does.

``tokenizer`` has one token per byte, ``mixture`` says what the model learns, and ``recipe.yaml`` how long. ``python -m
training.base --out DIR`` trains it; ``model/`` is the result, and ``making.json`` has the measurements. ``resolve``
turns the name of any base model into a checked folder.
"""
