"""The values that cross between control plane and data plane, and the door they cross by.

Rooms:
    what to read        split (DataSplit), context (ReadContext)
    what to write       context (WriteContext)
    what was written    commit_message (CommitMessage, WriteReport)
    other work          tasks/ (TaskBatch, CompactTask, …)
    as bytes            wire/
    who does it         executor (Executor)
"""
