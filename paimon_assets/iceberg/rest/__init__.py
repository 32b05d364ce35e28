"""Iceberg's REST catalog, read only: routes that `paimon_assets.server` serves.

each operation, with its method and path        routes
answers of the operations                       operations
errors, names and options in Iceberg's form     documents
"""
