"""Metadata files in JSON: snapshots, schemas, tags, statistics, segments.

Unknown fields are kept.
"""
