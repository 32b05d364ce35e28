"""Bytes ⇄ storage; knows nothing of Paimon.

Concept → files:
    the protocol        base (FileIO, FileStatus, FileIOSpec)
    opening a storage   opening (from a spec, or from a path and options)
    storages            local, arrow_fs
    publish-if-absent   atomic (and what each storage guarantees)
    in front of others  passing (renewed)
"""
