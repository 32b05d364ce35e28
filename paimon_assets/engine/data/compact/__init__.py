"""Files of one bucket become fewer files: the worker side of compaction.

    CompactTask ─▶ sections ─▶ rewritten: read, merged, written   ─▶ CommitMessage
                            └▶ moved to another level, as they are

Concept → files:
    a task                              compact (the door), keyed, append
    rows that wait for a bucket         postponed
    rows in another order               cluster, curve
    reading a section                   section_read
    one key range, merged               range_merge
    keys of level 0 in higher levels    lookup
    what changed, as rows               changelog
    new files                           output
    deletion vectors of a bucket        vectors
"""
