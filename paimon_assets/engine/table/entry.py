"""Where a person comes in: opens a catalog or a table, and loads the engine then, not before."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paimon_assets.engine.spec.options.catalog_options import METASTORE
from paimon_assets.engine.spec.options.rest_options import TOKEN, URI

if TYPE_CHECKING:
    from paimon_assets.engine.table.api import TableCatalog
    from paimon_assets.engine.table.table import Table


def open_catalog(
    warehouse: str = "",
    options: Mapping[str, str] | None = None,
    *,
    metastore: str | None = None,
    uri: str | None = None,
    token: str | None = None,
) -> "TableCatalog":
    """Open a warehouse directory, or the catalog behind a REST server.

    Args:
        warehouse: A path, or a URI such as `s3://bucket/warehouse`. Of a REST server, the name it
            gives its warehouse, if it has more than one.
        options: For the catalog and its storage, such as `s3.endpoint`; never shown in messages.
        metastore: `rest`; a directory by default. Like the next two it is short for the option.
        uri: Where the REST server is.
        token: The bearer token it wants; a secret.

    Raises:
        UnsupportedFeatureError: Another catalog than these is asked for.
        AccessDeniedError: The REST server does not know who asks.
        InvalidInputError: The path is blank or carries a key, its scheme is unknown, or the package
            for it is not installed.
        StorageError: The storage could not be opened.
    """
    short = {METASTORE.key: metastore, URI.key: uri, TOKEN.key: token}
    given = {**(options or {}), **{key: value for key, value in short.items() if value}}
    catalog: TableCatalog = _api().catalog_of(warehouse, given)
    return catalog


def open_table(path: str, options: Mapping[str, str] | None = None) -> "Table":
    """Open a bare table directory; `options` as in `open_catalog`.

    Raises:
        NotFoundError: There is no table in the directory, or no such branch.
        InvalidInputError: As `open_catalog`.
        FormatError, StorageError: Metadata is damaged, or the storage failed.
    """
    table: Table = _api().table_at(path, options)
    return table


def _api() -> Any:
    return importlib.import_module("paimon_assets.engine.table.api")
