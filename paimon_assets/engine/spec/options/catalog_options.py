"""Options of a catalog that are no table's: where it lies, the lock that keeps its writers apart.

They are given where a warehouse is opened, beside those of its storage.
Source: `org.apache.paimon.options.CatalogOptions`, `org.apache.paimon.jdbc.JdbcCatalogOptions`.
"""

from collections.abc import Mapping

from paimon_assets.engine.spec.options.option import Option, parse_duration_ms

WAREHOUSE = Option("warehouse", "", "Path of the directory that is the catalog.")
METASTORE = Option("metastore", "filesystem", "Who knows the tables' names.", parse=str.lower)
LOCK_ENABLED = Option("lock.enabled", False, "Whether writers hold a lock while they publish.")
LOCK_TYPE = Option(
    "lock.type", "", "Who keeps the lock: jdbc, a table of a database.", parse=str.lower
)
LOCK_ACQUIRE_TIMEOUT = Option(
    "lock-acquire-timeout",
    8 * 60_000,
    "How long to wait for the lock, and how long it stays with a holder that died.",
    parse=parse_duration_ms,
)
LOCK_CHECK_MAX_SLEEP = Option(
    "lock-check-max-sleep",
    8_000,
    "Longest pause between two tries to lock.",
    parse=parse_duration_ms,
)
LOCK_URI = Option("uri", "", "The database of the lock, such as jdbc:sqlite:/var/locks.db.")
CATALOG_KEY = Option(
    "catalog-key", "jdbc", "Name of the catalog among those that lock in one database."
)

CATALOG_PREFIXES = ("lock.", "lock-", "token", "data-token.", "dlf.", "header.", "table-default.")
"""What keys begin with that only a catalog reads."""


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are no catalog's; those of a storage are among them.

    >>> table_options({"metastore": "rest", "token": "abc", "scan.snapshot-id": "1"})
    {'scan.snapshot-id': '1'}
    """
    own = {WAREHOUSE.key, METASTORE.key, LOCK_URI.key, CATALOG_KEY.key, "prefix"}
    return {
        key: value
        for key, value in options.items()
        if key not in own and not key.startswith(CATALOG_PREFIXES)
    }
