"""NamedItems: views or functions of a warehouse, by name, each a JSON object.

All of a database lie in one document, so of two changes at once one is made on top of the other. A
rename from one database to another is two changes; a crash between them leaves both names, and the
same rename completes it.
Source: `org.apache.paimon.view.ViewChange`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast
from uuid import uuid4

from paimon_assets.engine.codec.rest.documents import (
    AddDialect,
    DropDialect,
    FunctionResponse,
    RemoveViewOption,
    SetViewOption,
    UpdateDialect,
    UpdateViewComment,
    ViewChange,
    ViewResponse,
    ViewSchema,
)
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.catalog_state import CatalogState
from paimon_assets.engine.control.catalog.numbered_document import Members
from paimon_assets.engine.errors import AlreadyExistsError, NotFoundError
from paimon_assets.engine.spec.types.type_text import Json

ID = "id"


class NamedItems:
    """The views, or the functions, of a warehouse.

    Each has its own members, and `id`, `createdAt`, `createdBy`, `updatedAt`, `updatedBy`: epoch
    milliseconds, and names that may be empty.
    """

    def __init__(self, state: CatalogState, noun: str) -> None:
        self._state = state
        self._noun = noun
        self._kind = f"{noun}s"

    def all(self, database: str) -> dict[str, Members]:
        """Return name → members, by name."""
        items = cast("dict[str, Members]", self._state.read(database, self._kind))
        return dict(sorted(items.items()))

    def get(self, name: Identifier) -> Members:
        """Return the members of one."""
        members = self.all(name.database).get(name.table)
        if members is None:
            raise self._missing(name)
        return members

    def create(self, name: Identifier, members: Members, *, by: str = "") -> Members:
        """Add one, and return it with its id."""
        now = self._state.clock.now_millis()
        made: Members = {
            **members,
            ID: str(uuid4()),
            "createdAt": now,
            "createdBy": by,
            "updatedAt": now,
            "updatedBy": by,
        }

        def added(items: Members) -> Members:
            if name.table in items:
                raise self._taken(name)
            return {**items, name.table: made}

        self._state.change(name.database, self._kind, added, by=by)
        return made

    def alter(
        self, name: Identifier, altered: Callable[[Members], Members], *, by: str = ""
    ) -> Members:
        """Replace the members of an item by the result of a function."""
        now = self._state.clock.now_millis()

        def changed(items: Members) -> Members:
            before = items.get(name.table)
            if before is None:
                raise self._missing(name)
            after = altered(cast("Members", before))
            if after == before:
                return items
            return {**items, name.table: {**after, "updatedAt": now, "updatedBy": by}}

        items = self._state.change(name.database, self._kind, changed, by=by)
        return cast("Members", items[name.table])

    def drop(self, name: Identifier) -> None:
        """Remove one."""

        def without(items: Members) -> Members:
            if items.pop(name.table, None) is None:
                raise self._missing(name)
            return items

        self._state.change(name.database, self._kind, without)

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Give one another name, perhaps in another database."""
        moved = self.get(source)

        def added(items: Members) -> Members:
            other = cast("Members | None", items.get(target.table))
            if other is not None and other.get(ID) != moved.get(ID):
                raise self._taken(target)
            if source.database == target.database and items.pop(source.table, None) is None:
                raise self._missing(source)
            return {**items, target.table: moved}

        self._state.change(target.database, self._kind, added)
        if source.database != target.database:
            self.drop(source)

    def _missing(self, name: Identifier) -> NotFoundError:
        return NotFoundError(
            f"{self._noun.capitalize()} '{name}' does not exist.",
            kind=f"{self._noun}-not-found",
            details={self._noun: name.table},
        )

    def _taken(self, name: Identifier) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"{self._noun.capitalize()} '{name}' exists already.",
            kind=f"{self._noun}-exists",
            details={self._noun: name.table},
        )


def function_of(name: str, members: Mapping[str, Json]) -> FunctionResponse:
    """Return a function as it is stored."""
    return FunctionResponse.from_json(
        {**members, "name": name, "uuid": members[ID], "owner": members["createdBy"]}
    )


def changed_view(view: ViewSchema, changes: Iterable[ViewChange]) -> ViewSchema:
    """Return a view after changes, made in their order."""
    options, dialects, comment = dict(view.options), dict(view.dialects), view.comment
    for change in changes:
        match change:
            case SetViewOption(key=key, value=value):
                options[key] = value
            case RemoveViewOption(key=key):
                options.pop(key, None)
            case UpdateViewComment():
                comment = change.comment
            case AddDialect(dialect=dialect) if dialect in dialects:
                raise AlreadyExistsError(
                    f"The view has a dialect '{dialect}' already.",
                    kind="dialect-exists",
                    details={"dialect": dialect},
                )
            case AddDialect(dialect=dialect, query=query):
                dialects[dialect] = query
            case UpdateDialect(dialect=dialect) | DropDialect(dialect=dialect) if (
                dialect not in dialects
            ):
                raise NotFoundError(
                    f"The view has no dialect '{dialect}'.",
                    kind="dialect-not-found",
                    details={"dialect": dialect},
                )
            case UpdateDialect(dialect=dialect, query=query):
                dialects[dialect] = query
            case DropDialect(dialect=dialect):
                del dialects[dialect]
    return replace(view, options=options, dialects=dialects, comment=comment)


_SCHEMA = "schema"


class CatalogViews:
    """The views of a warehouse; the caller checks that no table has the name."""

    def __init__(self, state: CatalogState) -> None:
        self._items = NamedItems(state, "view")

    def all(self, database: str) -> dict[str, ViewResponse]:
        """Return name → view, by name."""
        return {name: _view(name, members) for name, members in self._items.all(database).items()}

    def get(self, name: Identifier) -> ViewResponse:
        """Return a view."""
        return _view(name.table, self._items.get(name))

    def create(self, name: Identifier, schema: ViewSchema, *, by: str = "") -> None:
        """Create a view."""
        self._items.create(name, {_SCHEMA: cast("Json", schema.to_json())}, by=by)

    def alter(self, name: Identifier, changes: Sequence[ViewChange], *, by: str = "") -> None:
        """Change a view, all changes or none."""

        def altered(members: Members) -> Members:
            view = changed_view(ViewSchema.from_json(members[_SCHEMA]), changes)
            return {**members, _SCHEMA: cast("Json", view.to_json())}

        self._items.alter(name, altered, by=by)

    def drop(self, name: Identifier) -> None:
        """Drop a view."""
        self._items.drop(name)

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Give a view another name, perhaps in another database."""
        self._items.rename(source, target)


def _view(name: str, members: Mapping[str, Json]) -> ViewResponse:
    return ViewResponse.from_json({**members, "name": name, "owner": members["createdBy"]})
