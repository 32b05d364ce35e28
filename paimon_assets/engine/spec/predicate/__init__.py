"""Filters and expressions as trees of values, and what bounds of columns say of them (`prune`)."""
