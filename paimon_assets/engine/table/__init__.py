"""What a person holds. Opens no data file itself: it asks control to plan and an Executor to work.

Rooms:
    api, table     catalogs and tables, light to import: methods load what does their work
    frames/        frames of other libraries ⇄ rows; their filters
    read/          columns, filter, a moment or changes → rows; filters as text
    write/         rows → a snapshot; row changes, staged batches, truncation
    schema/        changes of schema, looked at first; schemas taken from rows
    segments/      add, show, delete, clean
    upkeep/        compaction, maintenance, ANALYZE, rescaling, the shape of a table
    system/        system tables
    sql/           statements: parsed, and run where no query engine is needed
"""
