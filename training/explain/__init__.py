"""Why does a run not learn? Each known cause is a test of a run's record, which names evidence and the key to change.

`causes` lists the tests in the order of cause and effect, `record` reads what they look at, `before` applies those that
need no training to the targets of a run that is about to start, and `report` writes what was found (docs/explain.md).
"""
