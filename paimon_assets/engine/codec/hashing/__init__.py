"""Hashes of rows and texts.

`bucket_function` is the one that writes, pruning and Spark's shuffle use.
"""
