"""What a person holds. Opens no data file itself: it asks control to plan and an Executor to work.

Concept → files:
    catalogs and tables     api, table
    reading                 read_builder, where
    writing                 write_builder; table_commit (emptying)
    changing rows           row_change (delete, update, merge), merge_source
    compacting              compaction
    what a table tells      system
"""
