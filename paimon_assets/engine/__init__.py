"""The Paimon table engine: imports neither Dagster nor Spark.

    engine/table/              what a person holds; opens no data file itself
    engine/embedded            the Executor of this process
    engine/control/ ┊ data/    plans and commits ┊ reads, merges, writes      (never meet)
    engine/contract/ ┊ lsm/    the values that cross ┊ the tree's shape, pure
    engine/codec/ ┊ fileio/    bytes ⇄ values ┊ bytes ⇄ storage
    engine/spec/               what the format is; standard library only
    engine/errors

    table ──asks──▶ control ──DataSplit──▶ Executor ──▶ data
      ▲                ▲                                  │
      └─ RecordBatch ──┼──────────────────────────────────┤
                       └───────── CommitMessage ◀─────────┘

Floors import downwards only; rooms on one floor do not see each other. ARCHITECTURE.md has the
index "concept → files".
"""
