"""From raw traces to targets that can be trusted. Runs alone: ``python -m targets``.

- ``settings``: every setting, with its default and its limits
- ``read``: files, folders and hub data sets become traces (`trace.Trace`), their markers one form
- ``filter``: what is wrong with a trace alone (`filter.filters`), and the cached decisions
- ``engine``: where the pieces of the work run: in this process, in several, or on Ray
- ``select``: exclusions, duplicates and caps, and the split into training and held-out targets
- ``check``: Great Expectations on the profile of the targets, and two versions side by side
- ``prepare``: all of it, with the proof that no trace is lost; ``prepared_files``: what it wrote
"""
