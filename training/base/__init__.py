"""The embedded base model: a tiny byte-level Qwen2 that can work out an expression in writing but rarely does.

What it is made of: ``tokenizer`` (one token a byte), ``mixture`` (what it is taught), ``recipe.yaml`` (how much, how
long). ``python -m training.base --out DIR`` makes it; ``model/`` is what that made, with the measurements in
``making.json``.
"""
