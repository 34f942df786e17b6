"""Whether this machine can run the project: ``machine_checks`` looks at it, ``trial`` trains on it."""
