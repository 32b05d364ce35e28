"""The Paimon table engine: imports neither Dagster nor Spark.

    engine/table/              the API of a table; opens no data file itself
    engine/embedded            the Executor of this process
    engine/control/ ┊ data/    plans and commits ┊ reads, merges, writes      (never meet)
    engine/contract/ ┊ lsm     the values that cross ┊ the tree's shape, pure
    engine/codec/ ┊ fileio/    bytes ⇄ values ┊ bytes ⇄ storage
    engine/spec/               the format's definitions; standard library and msgspec
    engine/errors ┊ add_ons    errors ┊ the table of add-ons

    table ──asks──▶ control ──DataSplit──▶ Executor ──▶ data
      ▲                ▲                                  │
      └─ RecordBatch ──┼──────────────────────────────────┤
                       └───────── CommitMessage ◀─────────┘

Imports go downwards only; packages on one layer do not import each other.

Concept → packages, from the format up:
    change of schema            spec.evolution, control.managers, table.schema_changes, assets.jobs
    values a change would lose  spec.types, control.overflow, data.cast_losses, table.schema_changes
    column of file and read     data.field_mapping (by field id), spec.types, data.casting
    bucket of a row             codec.hashing, data.write, control.write_planning,
                                spark.shuffle
    sequence numbers, padding   spec.merge, data.sequence
    merge on read               spec.merge, lsm, data.merge, data.read
    deletion vectors            codec.bitmaps, control.scan, data.read, data.row_change
    time travel, changes        control.scan, data.read, table.read
    commit, conflicts, retry    control.commit, table.write
    delete, update, merge       control.row_change, data.row_change, table.write, spark.dataframes
    compaction                  lsm, control.compact, data.compact, table.upkeep, assets.jobs
    expiry, orphans, tags       control.maintenance, table.upkeep, assets.jobs
    segments                    spec.segments, control.segments, data.footer, table.segments
    tables behind a server      codec.rest, control.rest, control.catalog, server
    names that become paths     spec.paths, control.managers, fileio.owned_deletion
    publish-if-absent           fileio.atomic, control.publishing
"""
