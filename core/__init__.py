"""Foundations of every package: errors, files and digests, schemas, command lines, processes, progress."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
