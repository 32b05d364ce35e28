"""The values that cross between control plane and data plane, and the protocol that carries them.

Concept → modules:
    input of reads      split, context
    input of writes     context, merge_on
    results of writes   commit_message
    other work          write_tasks, report_tasks
    as bytes            wire
    running it          executor
"""
