"""Commit messages → a snapshot.

Concept → modules:
    the optimistic loop, its retries       file_store_commit, request
    messages → changes                     changes
    partitions, and their overwrite        partition_filter
    conflicts                              checks, conflict
    other commits since the plan           planned_on
    manifests and lists                    commit_files
    version of the data                    data_version
    a snapshot that another engine made    external_snapshot
    giving up                              abort
"""
