"""A table as an asset: the decorator, the IO manager, checks before the commit, write modes.

Concept → modules:
    a function's frame as a table         table_asset, table_write, results
    the IO manager and its options        io_manager, io_metadata, stored_assets, nested_columns
    how far inputs were read              consumption
    write-audit-publish                   audit, audited_frame
    declared and stored schema            declared_table, schema_report
    column lineage                        lineage, plan_lineage, sql_lineage
    views as inputs, automation, Pipes    view_inputs, automation, pipes_client
"""
