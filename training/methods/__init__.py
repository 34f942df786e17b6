"""The methods: what a training computes of its samples, as classes that verl's hooks ask (``training.verl_hooks``).

`training.methods.method` has the questions, and ``docs/methods.md`` says how to answer them in a class of your own.
"""
