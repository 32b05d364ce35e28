"""The shape of the LSM tree: files in, decision out. Pure; no file is touched.

Concept → modules:
    sections and levels                           sorted_runs
    which files to compact, to rewrite or move    compaction
"""
