"""What to compact, from manifests alone; which results still fit when they are to be committed.

Concept → files:
    a snapshot → units of work        plan
    of a primary-key bucket           keyed (rules: lsm.universal_compaction, lsm.compact_steps)
    of a table without key            append (rules: lsm.append_compaction)
    of a partition to be sorted       clustering
    results that no longer fit        affected
"""
