"""Options of a catalog that are no table's: its warehouse and its kind.

They are given where a warehouse is opened, beside those of its storage.
Source: `org.apache.paimon.options.CatalogOptions`.
"""

from collections.abc import Mapping

from paimon_assets.engine.spec.options.option import Option

WAREHOUSE = Option("warehouse", "", "Path of the directory that is the catalog.")
METASTORE = Option("metastore", "filesystem", "Who knows the tables' names.", parse=str.lower)
LOCK_ENABLED = Option("lock.enabled", False, "Whether writers take a catalog lock; refused.")

CATALOG_PREFIXES = ("lock.", "lock-", "token", "data-token.", "dlf.", "header.", "table-default.")
"""What keys begin with that only a catalog reads."""


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are no catalog's; those of a storage are among them.

    >>> table_options({"metastore": "rest", "token": "abc", "scan.snapshot-id": "1"})
    {'scan.snapshot-id': '1'}
    """
    own = {WAREHOUSE.key, METASTORE.key, "uri", "catalog-key", "prefix"}
    return {
        key: value
        for key, value in options.items()
        if key not in own and not key.startswith(CATALOG_PREFIXES)
    }
