"""The shape of the LSM tree: files in, decision out. Pure; no file is touched.

Concept → modules:
    sections and levels         sorted_runs
    which runs to compact       universal_compaction
    rewrite or move a file      compact_steps
    which append files          append_compaction
"""
