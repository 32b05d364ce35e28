"""Catalogs: databases and tables by name, on a file system or behind a REST server.

Concept → modules:
    the protocols                               catalog
    on a file system, documents beside tables   filesystem_catalog, catalog_state
    behind a REST server                        rest_catalog
    the keeper of a table's schemas, versions   managed
"""
