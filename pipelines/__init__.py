"""Dagster only: what is defined, from which settings, and the commands that start it.

``definitions``  the code location    ``settings``  profiles and environment
``jobs`` ``schedules`` ``sensors`` ``automation`` ``resources``
``sources`` ``notify`` ``orphans``  what the sensors look at, tell and stop
``run``          materialize from the terminal, with its parts ``execute`` ``follow`` ``home``
``experiments``  compare recipes      ``registry``  move the champion by hand      ``ui``  serve the UI
"""
