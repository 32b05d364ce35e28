"""Filters and expressions as trees of values, and their evaluation on bounds (`prune`)."""
