"""Files of one bucket become fewer files: the worker side of compaction.

    CompactTask ─▶ sections ─▶ rewritten: read, merged, written   ─▶ CommitMessage
                            └▶ moved to another level, as they are

Concept → modules:
    the tasks, their new files                       compact
    a section: its plan, lookup, merge, changelog    sections
    whole records of files                           record_read
    deletion vectors, and their index files          bucket_vectors
"""
