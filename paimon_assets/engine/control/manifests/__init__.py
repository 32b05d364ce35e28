"""Manifests and manifest lists: read, written, kept and folded together."""
