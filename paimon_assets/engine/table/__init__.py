"""The API of a table. It opens no data file: control plans and an Executor works.

Concept → modules:
    catalogs and tables, light to import   api, table, table_state
    frames of other libraries ⇄ rows       frames/
    reads                                  read/
    writes and row changes                 write/
    changes of schema                      schema_changes, schema_merging
    segments                               segments/
    compaction, maintenance                upkeep/
    system tables                          system/
    views                                  views
"""
