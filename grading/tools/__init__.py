"""Tools that a policy may call: each is a pure function of its call, the earlier exchanges, the row and a seed."""
