"""Which files a read needs, and how they are grouped into splits.

Concept → modules:
    which snapshot                                  time_travel
    what changed                                    incremental
    which files are live, of tables and segments    file_store_scan, segment_scan, segment_loads
    which can be skipped                            file_pruning
    deletion vectors                                deletion_files
    which are read together, level 0                split_generator
    a read's splits, and external ones              table_scan
"""
