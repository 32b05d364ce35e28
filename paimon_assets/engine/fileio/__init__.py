"""Bytes ⇄ storage; knows nothing of Paimon.

Concept → modules:
    the protocol                                           base
    opening a storage                                      opening
    storages                                               local, arrow_fs
    object stores                                          object_store, object_clients, s3_listing
    their objects as files and folders; uploads            request_planner, object_uploads
    requests side by side                                  parallel_requests, ranged
    a listing in place of many requests                    request_planner
    publish-if-absent, and guarantees of each storage      atomic
    deleting only files that a table owns                  owned_deletion
    storages around a storage, renewed credentials         delegating
"""
