"""Bytes ⇄ storage; knows nothing of Paimon.

Concept → files:
    the protocol        base (FileIO, FileStatus, FileIOSpec)
    storages            local, arrow_fs
    publish-if-absent   atomic
"""
