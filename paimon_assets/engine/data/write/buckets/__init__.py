"""Rows → partition and bucket, in every bucket mode.

Concept → modules:
    which mode                        routing
    fixed, by hash                    row_key_extractor
    dynamic                           bucket_assigner, partition_index
    keys that may change partition    key_assigner, key_index
"""
