"""Rows → partition and bucket, in every bucket mode.

Concept → modules:
    fixed, by hash                                       row_key_extractor
    dynamic                                              hash_index
    keys that may change partition, and what shuffles    key_assigner
"""
