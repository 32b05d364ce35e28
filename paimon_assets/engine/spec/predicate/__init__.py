"""Filters and value expressions as trees of values, and what bounds say of them."""
