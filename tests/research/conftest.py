"""Graded tables made by hand."""

from tests.unit.evaluation.conftest import graded

__all__ = ["graded"]
