"""Messages → snapshot.

Concept → files:
    the optimistic loop          file_store_commit, request
    messages → changes           changes
    what an overwrite replaces   overwrite, partition_filter
    what may not be combined     checks, strict_mode; conflict, index_files (pure)
    manifests and lists          commit_files
    when to try again            retry
    giving up                    abort
"""
