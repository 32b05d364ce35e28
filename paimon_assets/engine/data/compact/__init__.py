"""Files of one bucket become fewer files: the worker side of compaction.

    CompactTask ─▶ sections ─▶ rewritten: read, merged, written   ─▶ CommitMessage
                            └▶ moved to another level, as they are

Concept → modules:
    the tasks, their new files                    compact
    what a section reads, merges and deletes      sections
"""
