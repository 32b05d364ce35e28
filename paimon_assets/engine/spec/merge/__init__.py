"""Merge rules: how records of one key become one row, and in which order they come."""
