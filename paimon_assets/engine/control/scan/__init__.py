"""Which files a read needs, and how they are grouped into splits.

Concept → modules:
    which snapshot                                  time_travel
    changes between two snapshots                   incremental
    which files are live, of tables and segments    file_store_scan, segment_scan
    which can be skipped                            file_pruning
    which are read together, deletion vectors       split_generator
    a read's splits, and external ones              table_scan
"""
