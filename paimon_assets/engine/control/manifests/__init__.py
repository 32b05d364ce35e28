"""Manifests and manifest lists: read, written, cached and merged."""
