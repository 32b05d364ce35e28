"""A REST catalog over a warehouse: `paimon-assets serve`. It keeps no state of its own.

Concept → modules:
    HTTP                                     app, serve
    which operation a request is             routes, request
    operations                               operations/, service
    who asks, and what they may              authentication, principals, signatures
    data tokens                              issued_tokens
    audit lines, refusals, partition sums    audit_log, refusal, sums
    numbers for Prometheus                   metrics
"""
