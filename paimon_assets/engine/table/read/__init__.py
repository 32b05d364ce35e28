"""Reads of a table: columns, a filter and a time-travel target, or what changed between two."""
