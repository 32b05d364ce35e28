"""Fixtures of the examples in docstrings, also where one module runs alone."""

from tests.testkit.doctests import doctest_namespace

__all__ = ["doctest_namespace"]
