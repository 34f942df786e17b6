"""Dagster assets and checks, thin: each decides nothing but what to run, where the result lies and what to show of it.

One module a stage of the graph; what they compute is in ``training`` and ``evaluation``.

``options``    what an operator sets      ``storage``      references and immutable folders
``interpreter`` the training interpreter  ``display``      metadata for people
``failures``   mistakes as one message    ``identity``     digests that decide versions and reuse
"""
