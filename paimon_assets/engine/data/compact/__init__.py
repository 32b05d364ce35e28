"""Files of one bucket become fewer files: the worker side of compaction.

    CompactTask ─▶ sections ─▶ rewritten: read, merged, written   ─▶ CommitMessage
                            └▶ moved to another level, as they are

Concept → modules:
    a task                              compact
    rows of postponed buckets           postponed
    which sections                      section_plan
    reading a section                   section_read
    one key range, merged               range_merge
    keys of level 0 in higher levels    lookup
    what changed, as rows               changelog
    new files                           output
    deletion vectors of a bucket        vectors
"""
