"""The shape of the LSM tree: files in, decision out. Pure; no file is touched.

Concept → files:
    sections and sorted runs    interval_partition
"""
