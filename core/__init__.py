"""Foundations of every package: errors, files and digests, schemas, command lines, processes, progress."""
