"""What a person holds. Opens no data file itself: it asks control to plan and an Executor to work.

Concept → files:
    catalogs and tables     api, table
    reading                 read_builder, where
    writing                 write_builder
    a table as Arrow        system_tables (snapshots, files, schemas)
"""
