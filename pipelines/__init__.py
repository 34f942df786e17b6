"""Dagster only: what is defined, from which settings, and the two commands that start it.

``definitions`` the code location   ``settings``  profiles and environment   ``run``  materialize from the terminal
``jobs`` ``schedules`` ``sensors`` ``automation`` ``resources``              ``ui``   serve the UI
``execute`` ``follow`` ``home``  the parts of ``run``
"""
