"""REST catalogs over a warehouse, Paimon's and Iceberg's: `paimon-assets serve`. No state is kept.

Concept → modules:
    HTTP                                     app, serve
    which operation a request is, refusals   routes, request
    operations                               operations/, service
    Iceberg's catalog, for its readers       iceberg_form, operations/iceberg
    who asks, and what they may              authentication, principals
    data tokens                              issued_tokens
    folders outside the warehouse            straight_paths
    audit lines                              audit_log
    numbers for Prometheus                   metrics
"""
