"""Files that land, each ingested exactly once; external folders imported as segments.

Concept → modules:
    which files a source has                              source_files
    which of them are new, and how a run takes them       landing
    ingestion of what a source has, and its sensor        ingestion
    what any source brings: its intake, its config        sources
    the ledger of ingested files, kept in sorted parts    ledger
    folders as segments                                   segment_import
"""
