"""System tables: a table's metadata as rows, and a catalog of all its tables.

They are named `<table>$<name>` and `sys.<name>`.

Concept → modules:
    by name; of the whole catalog            system_table
    the need for upkeep                      table_health
    snapshots, schemas, options, tags, …     metadata
    files, manifests, partitions, indexes    files
"""
