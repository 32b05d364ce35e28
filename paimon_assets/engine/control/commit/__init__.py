"""Messages → snapshot.

Concept → files:
    the optimistic loop         file_store_commit
    messages → entries          changes
    what may not be combined    conflict (pure)
    when to try again           retry
    giving up                   abort
"""
