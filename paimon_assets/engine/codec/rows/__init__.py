"""Paimon's row bytes: BinaryRow, rows of files in splits and messages, key ranges."""
