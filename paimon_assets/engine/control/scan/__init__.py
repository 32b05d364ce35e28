"""Which files a read needs, and how they are grouped.

Concept → files:
    which snapshot          time_travel
    what changed            incremental
    which files are live    file_store_scan
    which can be skipped    bucket_pruning, file_pruning
    what is read together   split_generator
"""
