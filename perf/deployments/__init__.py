"""A deployment with a webserver, a daemon and Postgres, and the faults that it survives."""
