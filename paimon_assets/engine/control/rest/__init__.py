"""The client of REST catalogs: one request after the other; it knows nothing of tables.

Concept → modules:
    what is read, sent, deleted and listed                    rest_api
    one request: signed, sent, repeated where that is safe    http_client
    names in paths, values in queries                         encoding
    who asks: a bearer token, keys of DLF                     auth
"""
