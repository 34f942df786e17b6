"""Why does a training fail, or not learn? `explain` has the table of causes, `machine` what a machine needs.

`samples` and `updates` test a `record` of a run; `before` makes one before the run starts, `live` while it runs.
"""
