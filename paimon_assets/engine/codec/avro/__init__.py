"""Avro containers, and the manifests that are stored in them.

Counts, depth and sizes are bounded.
"""
