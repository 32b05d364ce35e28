"""Files that land, each ingested exactly once, and external folders imported as segments.

Concept → modules:
    which files a source has                              source_files
    ingestion of new files                                ingestion, intake
    the ledger of ingested files, kept in sorted parts    ledger, ledger_parts
    folders as segments                                   segment_import
    sensors on new files                                  sensor
"""
