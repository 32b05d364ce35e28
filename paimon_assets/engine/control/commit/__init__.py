"""Commit messages → a snapshot.

Concept → modules:
    the optimistic loop                    file_store_commit
    messages → changes, data version       changes
    one commit, its retries                request
    row ids                                row_ids
    conflicts                              checks
    partitions, and their overwrite        partition_filter
    other commits since the plan           planned_on
    manifests and lists                    commit_files
    whether a snapshot continues its line  look_back
    giving up                              abort
"""
