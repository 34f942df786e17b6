"""This machine: its processes, their limits, locks, and the loopback address."""
