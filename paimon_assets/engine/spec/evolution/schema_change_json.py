"""SchemaChange ⇄ the JSON of REST catalogs, which YAML and the Launchpad use too.

    {"action": "addColumn", "fieldNames": ["c"], "dataType": "INT", "comment": null, "move": null}

Members are written in Java's order. Read are both `action` and `type` as the name of the kind, one
column's name in place of a list, numbers and booleans as texts; unknown members are ignored.
Source: `org.apache.paimon.schema.SchemaChange`, `org.apache.paimon.rest.requests`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, cast

from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import (
    AddColumn,
    DropColumn,
    DropPrimaryKey,
    Move,
    MoveType,
    Path,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from paimon_assets.engine.spec.types.data_types import DataType
from paimon_assets.engine.spec.types.type_text import Json, parse_type, type_to_json

_ACTIONS: Mapping[type[SchemaChange], str] = {
    SetOption: "setOption",
    RemoveOption: "removeOption",
    UpdateComment: "updateComment",
    AddColumn: "addColumn",
    RenameColumn: "renameColumn",
    DropColumn: "dropColumn",
    UpdateColumnType: "updateColumnType",
    UpdateColumnNullability: "updateColumnNullability",
    UpdateColumnComment: "updateColumnComment",
    UpdateColumnDefaultValue: "updateColumnDefaultValue",
    UpdateColumnPosition: "updateColumnPosition",
    DropPrimaryKey: "dropPrimaryKey",
}
"""Kind of change → its name in JSON."""


def change_to_json(change: SchemaChange) -> dict[str, Json]:
    """Write a change as REST catalogs take it.

    >>> from paimon_assets.engine.spec.evolution.schema_change import rename_column
    >>> change_to_json(rename_column("a", "b"))
    {'action': 'renameColumn', 'fieldNames': ['a'], 'newName': 'b'}
    """
    return {"action": _ACTIONS[type(change)], **_members(change)}


def changes_to_json(changes: Iterable[SchemaChange]) -> list[Json]:
    """Write several changes."""
    return [change_to_json(change) for change in changes]


def _members(value: SchemaChange | Move) -> dict[str, Json]:
    return {_in_json(field.name): _to_json(getattr(value, field.name)) for field in fields(value)}


def _in_json(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _to_json(value: Any) -> Json:
    match value:
        case DataType():
            return type_to_json(value)
        case Move():
            return _members(value)
        case MoveType():
            return value.value
        case tuple():
            return list(value)
        case _:
            return cast("Json", value)


def changes_from_json(json: object) -> tuple[SchemaChange, ...]:
    """Read a list of changes, or the body of a request: `{"changes": [...]}`."""
    listed = json.get("changes") if isinstance(json, Mapping) else json
    if not isinstance(listed, list | tuple):
        raise _wrong(f"expected a list of changes, got {json!r}")
    changes = []
    for number, item in enumerate(listed, start=1):
        try:
            changes.append(change_from_json(item))
        except InvalidInputError as error:
            raise InvalidInputError(
                f"Change {number} of {len(listed)}: {error.message}",
                kind=error.kind,
                details={**error.details, "change": number},
            ) from error
    return tuple(changes)


def change_from_json(json: object) -> SchemaChange:
    """Read one change.

    >>> change_from_json({"action": "dropColumn", "fieldNames": ["a"]})
    DropColumn(field_names=('a',))
    """
    if not isinstance(json, Mapping):
        raise _wrong(f"expected an object such as {{action: dropColumn, …}}, got {json!r}")
    action = json.get("action", json.get("type"))
    kind = _KINDS.get(str(action))
    if kind is None:
        known = ", ".join(_KINDS)
        raise _wrong(f"unknown action {action!r}; there are {known}")
    return _read(kind, _Members(str(action), cast("Mapping[str, Json]", json)))


def _read(kind: type[SchemaChange], members: "_Members") -> SchemaChange:
    """Read the members of a kind of change; a member with a default may be missing."""
    found: dict[str, Any] = {}
    for field in fields(kind):
        name = _in_json(field.name)
        if field.default is MISSING or members.has(name, or_null=field.default is not None):
            found[field.name] = _READERS[field.name](members, name)
    return kind(**found)


def _wrong(reason: str) -> InvalidInputError:
    return InvalidInputError(f"No schema change: {reason}.", kind="schema-change")


class _Members:
    """The members of one change, by name."""

    def __init__(self, action: str, json: Mapping[str, Json]) -> None:
        self._action = action
        self._json = json

    def given(self, name: str) -> Json:
        """Return a member that must be there, be it null."""
        if name not in self._json:
            raise _wrong(f"'{self._action}' needs '{name}'")
        return self._json[name]

    def optional_text(self, name: str) -> str | None:
        """Return a text that must be named, but may be null."""
        value = self.given(name)
        if value is None:
            return None
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise _wrong(f"'{name}' of '{self._action}' must be a text, not {value!r}")
        return str(value)

    def text(self, name: str) -> str:
        """Return a text."""
        value = self.optional_text(name)
        if value is None:
            raise _wrong(f"'{name}' of '{self._action}' must not be null")
        return value

    def has(self, name: str, *, or_null: bool) -> bool:
        """Whether there is a member of this name, and not null unless that is a value."""
        return name in self._json and (or_null or self._json[name] is not None)

    def boolean(self, name: str) -> bool:
        """Return true or false, perhaps as a text."""
        value = self.given(name)
        match str(value).lower():
            case "true":
                return True
            case "false":
                return False
            case _:
                raise _wrong(f"'{name}' of '{self._action}' must be true or false, not {value!r}")

    def path(self, member: str) -> Path:
        """Return the column."""
        value = self.given(member)
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
            raise _wrong(f"'{member}' of '{self._action}' must list names, not {value!r}")
        return tuple(str(name) for name in names)

    def data_type(self, name: str) -> DataType:
        """Return a type."""
        value = self.given(name)
        try:
            return parse_type(value)
        except (FormatError, KeyError, TypeError, ValueError) as error:
            shown = error.message if isinstance(error, FormatError) else repr(value)
            raise _wrong(f"'{name}' of '{self._action}' is no data type: {shown}") from error

    def move(self, name: str) -> Move:
        """Return a column's new place."""
        value = self.given(name)
        if not isinstance(value, Mapping):
            raise _wrong(f"'{name}' of '{self._action}' must be an object, not {value!r}")
        inner = _Members("move", value)
        kind = inner.text("type").upper()
        if kind not in MoveType.__members__:
            raise _wrong(f"'type' of 'move' must be one of {', '.join(MoveType)}, not {kind!r}")
        reference = value.get("referenceFieldName")
        return Move(
            field_name=inner.text("fieldName"),
            reference_field_name=None if reference is None else str(reference),
            type=MoveType(kind),
        )


_KINDS = {name: kind for kind, name in _ACTIONS.items()}

_READERS: Mapping[str, Callable[[_Members, str], Any]] = {
    "key": _Members.text,
    "value": _Members.text,
    "new_name": _Members.text,
    "comment": _Members.optional_text,
    "new_comment": _Members.optional_text,
    "new_default_value": _Members.optional_text,
    "field_names": _Members.path,
    "data_type": _Members.data_type,
    "new_data_type": _Members.data_type,
    "keep_nullability": _Members.boolean,
    "new_nullability": _Members.boolean,
    "move": _Members.move,
}
"""Field of a change → how its member is read."""
