"""The values of metadata files: snapshots, manifests, data files, statistics, tags."""
