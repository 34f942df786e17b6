"""Processes on this machine: what runs, locks, limits, and the loopback address."""
