"""Commit messages → a snapshot.

Concept → modules:
    the optimistic loop                    file_store_commit, request
    messages → changes                     changes
    what an overwrite replaces             overwrite, partition_filter
    what may not be combined               checks, strict_mode, conflict, index_files
    what the changes were planned on       planned_on
    external files that leave the table    external_removal
    manifests and lists                    commit_files, partition_sums
    version of the data                    data_version
    a snapshot that another engine made    external_snapshot
    when to try again                      retry
    giving up                              abort
"""
