"""Files that land, each ingested exactly once; external folders imported as segments.

Concept → modules:
    which files a source has                              source_files
    which of them are new, and how a run takes them       landing
    ingestion of a source's new files, and its sensor     ingestion
    the interface of sources: intake, config              sources
    the ledger of ingested files, kept in sorted parts    ledger
    folders as segments                                   segment_import
"""
