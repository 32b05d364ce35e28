"""The values that cross between control plane and data plane, and the protocol that carries them.

Concept → modules:
    what to read        split, context
    what to write       context, merge_on
    what was written    commit_message
    other work          write_tasks, report_tasks
    as bytes            wire
    who does it         executor
"""
