"""CatalogDatabases: ids and properties of a warehouse's databases."""

from collections.abc import Mapping, Sequence
from typing import cast

from paimon_assets.engine.codec.rest.rest_responses import AlterDatabaseResponse, DatabaseResponse
from paimon_assets.engine.control.catalog.catalog_state import PROPERTIES, CatalogState
from paimon_assets.engine.control.catalog.numbered_document import Members
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError

_LOCATION = "location"
_OPTIONS = "options"


class CatalogDatabases:
    """The properties of databases; the directory of one says whether there is such a database."""

    def __init__(self, state: CatalogState) -> None:
        self._state = state

    def get(self, name: str) -> DatabaseResponse:
        """Return a database and its properties; its id if a change gave it one."""
        state = self._state
        identity = state.identity(name)
        members = state.read(name, PROPERTIES)
        by = "" if identity is None else identity.created_by
        made = 0 if identity is None else identity.created_at
        return DatabaseResponse(
            id=None if identity is None else identity.id,
            name=name,
            location=state.catalog.database_path(name),
            options=cast("dict[str, str]", members.get(_OPTIONS, {})),
            owner=by,
            created_at=made,
            created_by=by,
            updated_at=cast("int", members.get("updatedAt", made)),
            updated_by=cast("str", members.get("updatedBy", by)),
        )

    def create(self, name: str, options: Mapping[str, str], *, existed: bool, by: str = "") -> None:
        """Note the properties of a database that has just been made."""
        refuse_location(name, options)

        def first(members: Members) -> Members:
            if existed or members:
                raise AlreadyExistsError(
                    f"Database '{name}' exists already.",
                    kind="database-exists",
                    details={"database": name},
                )
            return self._noted({**options}, by)

        self._state.change(name, PROPERTIES, first, by=by)

    def alter(
        self, name: str, *, removals: Sequence[str], updates: Mapping[str, str], by: str = ""
    ) -> AlterDatabaseResponse:
        """Remove and set properties."""
        refuse_location(name, updates)
        removed = set[str]()

        def changed(members: Members) -> Members:
            options = dict(cast("dict[str, str]", members.get(_OPTIONS, {})))
            removed.clear()
            removed.update(key for key in removals if key in options)
            kept = {key: value for key, value in options.items() if key not in removed}
            after: Members = {**kept, **updates}
            return members if after == options else self._noted(after, by)

        self._state.change(name, PROPERTIES, changed, by=by)
        return AlterDatabaseResponse(
            removed=tuple(key for key in removals if key in removed),
            updated=tuple(updates),
            missing=tuple(key for key in removals if key not in removed),
        )

    def _noted(self, options: Members, by: str) -> Members:
        return {_OPTIONS: options, "updatedAt": self._state.clock.now_millis(), "updatedBy": by}


def refuse_location(name: str, options: Mapping[str, str]) -> None:
    """Refuse a property that says where a database lies."""
    if _LOCATION in options:
        raise InvalidInputError(
            f"Database '{name}' lies in the warehouse; '{_LOCATION}' cannot be chosen.",
            kind="database-location",
            details={"database": name},
        )
