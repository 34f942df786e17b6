"""The error that a user can mend."""


class InputError(ValueError):
    """Something the user gave is wrong; the message says what, where, what was expected and what to do.

    Command lines print it after ``error: `` and exit with status 2; Dagster runs fail with it as the reason.
    """
