"""Files of one bucket become fewer files: the worker side of compaction.

    CompactTask ─▶ sections ─▶ rewritten: read, merged, written   ─▶ CommitMessage
                            └▶ moved to another level, as they are

Concept → modules:
    the tasks, their new files          compact
    planning and reading a section      section_read
    lookup and merge of a key range     range_merge
    deletion vectors of a bucket        vectors
"""
