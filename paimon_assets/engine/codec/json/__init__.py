"""Metadata files in JSON: snapshots, schemas, tags, statistics, segments."""
