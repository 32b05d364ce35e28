"""Which files a read needs, and how they are grouped into splits.

Concept → modules:
    which snapshot                                  time_travel
    what changed                                    incremental
    which files are live, of tables and segments    file_store_scan, table_scan, segment_scan,
                                                    segment_loads
    which can be skipped                            file_pruning
    visibility of level 0, deletion vectors         visibility, deletion_files
    what is read together                           split_generator
    external plans                                  external_splits
"""
