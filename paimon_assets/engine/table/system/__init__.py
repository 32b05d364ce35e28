"""System tables: a table's metadata as rows, and a catalog of all its tables.

They are named `<table>$<name>` and `sys.<name>`.

Concept → modules:
    by name; rows with their kinds           system_table
    the need for upkeep                      table_health, table_shape
    snapshots, schemas, options, tags, …     metadata
    files, manifests, partitions, indexes    files
    all tables, partitions, options          global_tables
"""
