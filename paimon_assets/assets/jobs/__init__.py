"""Jobs for upkeep: compaction, maintenance and schema evolution, each with a dry run.

Concept → modules:
    compaction, and the sensor on its backlog    compaction, compaction_backlog
    how a table's files look                     table_picture
    maintenance                                  maintenance
    schema evolution                             schema_evolution
    which tables a definition declares           declared_tables
"""
