"""The client of REST catalogs: one request after the other; it knows nothing of tables.

Concept → modules:
    one request: signed, sent, repeated where that is safe; lists    http_client
    authentication: a bearer token, keys of DLF                      auth
"""
