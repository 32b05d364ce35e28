"""Files that land, and topics, each ingested exactly once; external folders imported as segments.

Concept → modules:
    which files a source has                              source_files
    which of them are new, and how a run takes them       landing
    ingestion of what a source has, and its sensor        ingestion
    topics of Kafka, how a run takes them, their sensor   topic_source, topic_intake, topic_sensor
    a run that goes on with a commit every few seconds    following
    the ledger of ingested files, kept in sorted parts    ledger
    folders as segments                                   segment_import
"""
