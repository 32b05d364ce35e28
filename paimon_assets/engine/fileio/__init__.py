"""Bytes ⇄ storage; knows nothing of Paimon.

Concept → modules:
    the protocol                                           base
    opening a storage                                      opening
    storages                                               local, arrow_fs
    requests side by side                                  parallel_requests, ranged
    publish-if-absent, and what each storage guarantees    atomic
    deleting only what a table owns                        owned_deletion, canonical
    storages in front of others, renewed credentials       delegating
"""
