"""Metadata in, plans out; messages in, snapshots out. Opens no data file.

Concept → modules:
    tables by name, and the keeper of schemas and versions        catalog/, rest/
    one table's metadata                                          file_store
    snapshots, schemas, tags, branches, consumers, changelogs     managers/, rollback
    manifests                                                     manifests
    a time-travel target, or changes between two → splits         scan/
    the state that a writer starts from                           write_planning
    messages → a snapshot                                         commit/, publishing
    add-ons that follow commits                                   listeners
    plans of other work                                           compact, maintenance/, row_change
    the registry of segments, and their folders                   segments
    values that a change of schema would lose                     overflow
    ledgers of ingested files                                     ledgers
    how old partitions are, and which have expired                partition_age
    refused features                                              features
    time                                                          clock
"""
