"""A table as an asset: the decorator, the IO manager, checks before the commit, write modes.

Concept → modules:
    a function's frame as a table         table_asset, table_write
    the IO manager and its options        io_manager, io_metadata
    how far inputs were read              consumption
    write-audit-publish                   audit
    declared and stored schema            declared_table
    column lineage                        lineage
"""
