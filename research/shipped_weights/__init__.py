"""The makers of the embedded base model, a tiny byte-level Qwen2 that can work out an expression but rarely does.

``python -m research.shipped_weights.base_model --out DIR`` trains it: its tokenizer has one token per byte, and
``recipe.yaml`` says what it learns, and how long. ``training/embedded_model/model`` is the result, and
``training_record.json`` next to it has the measurements. ``python -m research.shipped_weights.tools_base --out DIR``
trains the one of ``training/embedded_model/tools``, which can also call a calculator.
"""
