"""Rows → partition and bucket, in every bucket mode.

Concept → modules:
    the mode of a table               routing
    fixed, by hash                    row_key_extractor
    dynamic                           hash_index
    keys that may change partition    key_assigner
"""
