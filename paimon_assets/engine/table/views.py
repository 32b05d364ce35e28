"""Views of a catalog: named queries, in one dialect or more.

>>> catalog.views.create("ods.late", "SELECT * FROM ods.flights WHERE late > 15",
...                      {"carrier": "STRING"})                       # doctest: +SKIP
>>> catalog.views.get("ods.late").query_for("spark")                  # doctest: +SKIP
'SELECT * FROM ods.flights WHERE late > 15'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import asdict

from paimon_assets.engine.control.catalog.catalog import Catalog, Identifier, ViewCatalog
from paimon_assets.engine.errors import NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import DataField, DataType
from paimon_assets.engine.spec.values import Value

if TYPE_CHECKING:
    from paimon_assets.engine.codec.rest.bodies import ViewChange


class View(Value):
    """A view."""

    name: str
    """`database.view`."""
    fields: tuple[DataField, ...]
    query: str
    """The query of dialects that `dialects` does not name."""
    dialects: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def query_for(self, dialect: str) -> str:
        """Return the query in a dialect, such as `spark`."""
        return self.dialects.get(dialect, self.query)


class Views:
    """The views of a catalog; names are `database.view`."""

    def __init__(self, catalog: Catalog) -> None:
        if not isinstance(catalog, ViewCatalog):
            raise UnsupportedFeatureError(
                "This catalog keeps no views; a warehouse and a REST server do.", kind="no-views"
            )
        self._catalog = catalog

    def list(self, database: str) -> list[str]:
        """Return the names of a database's views, sorted."""
        return self._catalog.list_views(database)

    def get(self, name: str) -> View:
        """Return a view."""
        return View(name=name, **asdict(self._catalog.get_view(Identifier.parse(name)).schema))

    def create(
        self,
        name: str,
        query: str,
        columns: Mapping[str, str | DataType],
        *,
        dialects: Mapping[str, str] | None = None,
        comment: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> View:
        """Create a view."""
        from paimon_assets.engine.codec.rest.bodies import ViewSchema

        schema = ViewSchema(
            fields=Schema.of(columns).fields,
            query=query,
            dialects=dict(dialects or {}),
            comment=comment,
            options=dict(options or {}),
        )
        self._catalog.create_view(Identifier.parse(name), schema)
        return self.get(name)

    def alter(self, name: str, changes: Sequence[ViewChange]) -> View:
        """Change a view, all changes or none."""
        self._catalog.alter_view(Identifier.parse(name), changes)
        return self.get(name)

    def drop(self, name: str, *, ignore_if_missing: bool = False) -> None:
        """Drop a view; the tables it reads stay."""
        self._catalog.drop_view(Identifier.parse(name), ignore_if_missing=ignore_if_missing)

    def rename(self, source: str, target: str) -> None:
        """Give a view another name, perhaps in another database."""
        self._catalog.rename_view(Identifier.parse(source), Identifier.parse(target))


def refuse_view(catalog: Catalog, identifier: Identifier) -> None:
    """Refuse to open a view as if it were a table."""
    if not isinstance(catalog, ViewCatalog):
        return
    try:
        catalog.get_view(identifier)
    except (NotFoundError, UnsupportedFeatureError):
        return
    message = (
        f"'{identifier}' is a view, and views are queries, which this engine does not run: read it"
        " on Spark (spark_sql, or an input whose executor is 'spark'), or the tables it names."
    )
    raise UnsupportedFeatureError(message, kind="view", view=str(identifier))
