"""The embedded base model: a tiny byte-level Qwen2 that can work out an expression in writing but rarely does.

``python -m training.embedded_model --out DIR`` trains it: its tokenizer has one token per byte, and ``recipe.yaml``
says what it learns, and how long. ``model/`` is the result, and ``training_record.json`` has the measurements.
``resolve_model`` turns the name of any base model into a checked folder.
"""
