"""Catalogs: databases and tables by name, on a file system or behind a REST server.

Concept → modules:
    the protocols                               catalog, database_catalog, view_catalog
    on a file system                            filesystem_catalog, catalog_databases,
                                                catalog_views, identity
    documents beside the tables                 catalog_state, numbered_document, named_items
    behind a REST server                        rest_catalog, rest_values, data_tokens
    who keeps a table's schemas and versions    environment, managed
"""
