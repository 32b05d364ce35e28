"""Reads of a table: columns, a filter and a time-travel target, or changes between two."""
