"""A REST catalog over a warehouse: `paimon-assets serve`. It keeps no state of its own.

Concept → modules:
    HTTP                                     app, serve
    which operation a request is, refusals   routes, request
    operations                               operations/, service
    who asks, and what they may              authentication, principals
    data tokens                              issued_tokens
    audit lines                              audit_log
    numbers for Prometheus                   metrics
"""
