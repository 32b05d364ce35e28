"""Files of one bucket become fewer files: the worker side of compaction.

    CompactTask ─▶ sections ─▶ rewritten: read, merged, written   ─▶ CommitMessage
                            └▶ moved to another level, as they are

Concept → modules:
    the tasks, their new files                    compact
    planning, reading and merging of a section,
    deletion vectors of a bucket                  sections
"""
