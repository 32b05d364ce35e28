"""Add-on: a REST catalog over a warehouse, `paimon-assets serve`. No state is kept.

Concept → modules:
    HTTP                                     app, serve
    which operation a request is, refusals   routes, request
    operations                               operations/, service
    bodies that no client here reads         bodies
    a snapshot that a client has made        external_snapshot
    principals and their permissions         authentication, principals
    data tokens                              issued_tokens
    folders outside the warehouse            straight_paths
    audit lines                              audit_log
    numbers for Prometheus                   metrics
"""
