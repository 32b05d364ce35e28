"""Tables whose catalog says which rows and columns a reader may see (`query-auth.enabled`).

The catalog is asked for the columns of the read and of its filter. What it wants applied, rows
filtered or columns masked, only it can judge; a read that it leaves as it is goes on.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.options.all_options import QUERY_AUTH_ENABLED


@runtime_checkable
class QueryAuth(Protocol):
    """A catalog that judges reads."""

    def is_plain_query(self, identifier: Identifier, columns: Sequence[str]) -> bool:
        """Whether a reader may read these columns as they are.

        Returns:
            False if rows must be filtered or values masked.

        Raises:
            AccessDeniedError: The reader may not.
        """
        ...


def authorized(store: FileStore, columns: Callable[[], Iterable[str]]) -> FileStore:
    """Return the table for a read that its catalog allows; other tables as they are.

    Args:
        store: The table.
        columns: Returns all columns the read looks at.

    Raises:
        AccessDeniedError: The catalog does not allow it.
        UnsupportedFeatureError: Rows must be filtered, or values masked.
    """
    catalog: object = store.environment.catalog
    identifier = store.environment.identifier
    is_asked = store.schema.typed_options.get(QUERY_AUTH_ENABLED)
    if not is_asked or identifier is None or not isinstance(catalog, QueryAuth):
        return store
    known = set(store.schema.field_names)
    if not catalog.is_plain_query(identifier, sorted(known.intersection(columns()))):
        raise UnsupportedFeatureError(
            f"Cannot read table '{store.label}': its catalog lets you see some rows only, or masked"
            f" values ('{QUERY_AUTH_ENABLED.key}').",
            kind="unsupported-query-auth",
            details={"table": store.label},
        )
    return store.with_options({QUERY_AUTH_ENABLED.key: "false"})
