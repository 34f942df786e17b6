"""From raw traces to targets that can be trusted: read, normalise, verify, filter, deduplicate, account for every row.

It lives under ``training/`` and not under ``assets/`` because it is none of Dagster's: it runs alone
(``python -m targets``), its output is the trainer's input, and the token limits are those of the policy.

``config``    what a user can set            ``sources``   files, folders, hub datasets -> traces
``dialects``  marker dialects -> one form    ``filters``   named reasons to refuse a trace
``verify``    answers against gold answers   ``tokens``    lengths under the policy's tokenizer
``dedupe``    one problem, one survivor      ``prepare``   all of it, in two passes that conserve rows
``split``     train and held-out rows        ``quality``   Great Expectations on the profile (suite: YAML)
"""
