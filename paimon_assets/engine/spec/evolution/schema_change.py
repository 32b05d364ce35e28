"""SchemaChange: one alteration of a table's schema, as a value and as the JSON of REST catalogs.

    changes = [rename_column("price", "net"), add_column("gross", "DECIMAL(10, 2)", after="net")]
    table.alter(changes)                             # one schema, or none

What changes make of a schema, and which are refused, says `spec.evolution.schema_evolution`.
In JSON members have Java's order: `{"action": "dropColumn", "fieldNames": ["c"]}`. Also read are
`type` for `action`, one column's name for a list, numbers and booleans as texts; unknown members
are ignored. Source: `org.apache.paimon.schema.SchemaChange`, `org.apache.paimon.rest.requests`.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, cast, get_args

from msgspec.structs import fields

from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.schema.schema import option_text
from paimon_assets.engine.spec.types.data_types import DataType
from paimon_assets.engine.spec.types.type_text import Json, parse_type, type_of, type_to_json
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import camel_case

Path = tuple[str, ...]
"""A column's name; more names lead to a field inside it, by `element` and `value` through lists."""


class OnOverflow(StrEnum):
    """The answer to a change that would lose stored values."""

    REFUSE = "refuse"
    ALLOW = "allow"


class MoveType(StrEnum):
    FIRST = "FIRST"
    AFTER = "AFTER"
    BEFORE = "BEFORE"
    LAST = "LAST"


class Move(Value):
    field_name: str
    reference_field_name: str | None = None
    """For AFTER and BEFORE."""
    type: MoveType


class SetOption(Value):
    """Set a table option."""

    key: str
    value: str


class RemoveOption(Value):
    """Reset a table option to its default."""

    key: str


class UpdateComment(Value):
    """Set the table's comment; None removes it."""

    comment: str | None


class AddColumn(Value):
    """Add a nullable column; files written before read as null."""

    field_names: Path
    data_type: DataType
    comment: str | None = None
    move: Move | None = None
    """Its place; None is the end."""


class RenameColumn(Value):
    """Give a column another name; its id and values stay."""

    field_names: Path
    new_name: str


class DropColumn(Value):
    """Drop a column; its id is never used again."""

    field_names: Path


class UpdateColumnType(Value):
    """Give a column another type; values stored before are cast when they are read."""

    field_names: Path
    new_data_type: DataType
    keep_nullability: bool = False
    """Whether the column stays as nullable as it is, whatever the new type says."""


class UpdateColumnNullability(Value):
    """Let a column hold nulls, or refuse them."""

    field_names: Path
    new_nullability: bool
    """True is nullable."""


class UpdateColumnComment(Value):
    """Set a column's comment; None removes it."""

    field_names: Path
    new_comment: str | None


class UpdateColumnDefaultValue(Value):
    """Set the value that writers store where none is given; None removes it."""

    field_names: Path
    new_default_value: str | None


class UpdateColumnPosition(Value):
    """Move a column among the others."""

    move: Move


class DropPrimaryKey(Value):
    """Make an append table of a primary-key table that holds nothing yet."""


SchemaChange = (
    SetOption
    | RemoveOption
    | UpdateComment
    | AddColumn
    | RenameColumn
    | DropColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnDefaultValue
    | UpdateColumnPosition
    | DropPrimaryKey
)
"""One change."""

ColumnChange = (
    AddColumn
    | RenameColumn
    | DropColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnDefaultValue
)
"""A change that names its column by a path."""


def set_option(key: str, value: str | float) -> SetOption:
    """Set a table option; numbers and truth values become texts."""
    return SetOption(key=key, value=option_text(key, value))


def remove_option(key: str) -> RemoveOption:
    """Reset a table option to its default."""
    return RemoveOption(key=key)


def add_column(
    name: str,
    data_type: str | DataType | Mapping[str, Json],
    *,
    comment: str | None = None,
    after: str | None = None,
    before: str | None = None,
    first: bool = False,
) -> AddColumn:
    """Add a nullable column at the end, or where one of `after`, `before`, `first` says."""
    places = (after is not None, before is not None, first)
    move = None if not any(places) else _move(name, after=after, before=before, first=first)
    return AddColumn(field_names=(name,), data_type=type_of(data_type), comment=comment, move=move)


def rename_column(name: str, new_name: str) -> RenameColumn:
    """Give a column another name."""
    return RenameColumn(field_names=(name,), new_name=new_name)


def drop_column(name: str) -> DropColumn:
    """Drop a column."""
    return DropColumn(field_names=(name,))


def update_column_type(
    name: str, data_type: str | DataType | Mapping[str, Json]
) -> UpdateColumnType:
    """Give a column another type; it stays as nullable as it is."""
    return UpdateColumnType(
        field_names=(name,), new_data_type=type_of(data_type), keep_nullability=True
    )


def update_column_nullability(name: str, *, nullable: bool) -> UpdateColumnNullability:
    """Let a column hold nulls, or refuse them."""
    return UpdateColumnNullability(field_names=(name,), new_nullability=nullable)


def update_column_comment(name: str, comment: str | None) -> UpdateColumnComment:
    """Set or remove a column's comment."""
    return UpdateColumnComment(field_names=(name,), new_comment=comment)


def update_column_default_value(name: str, default: str | None) -> UpdateColumnDefaultValue:
    """Set or remove a column's default value, written as text."""
    return UpdateColumnDefaultValue(field_names=(name,), new_default_value=default)


def move_column(
    name: str, *, after: str | None = None, before: str | None = None, first: bool = False
) -> UpdateColumnPosition:
    """Move a column after or before another, to the front, or (by default) to the end."""
    return UpdateColumnPosition(move=_move(name, after=after, before=before, first=first))


def _move(name: str, *, after: str | None, before: str | None, first: bool) -> Move:
    if (after is not None) + (before is not None) + first > 1:
        raise InvalidInputError(
            f"Column '{name}' can go to one place only: say one of after, before and first.",
            kind="schema-change",
            details={"column": name},
        )
    if first:
        return Move(field_name=name, type=MoveType.FIRST)
    if after is not None:
        return Move(field_name=name, reference_field_name=after, type=MoveType.AFTER)
    if before is not None:
        return Move(field_name=name, reference_field_name=before, type=MoveType.BEFORE)
    return Move(field_name=name, type=MoveType.LAST)


def _action(kind: type[Any]) -> str:
    return kind.__name__[0].lower() + kind.__name__[1:]


def change_to_json(change: SchemaChange) -> dict[str, Json]:
    """Write a change as REST catalogs take it.

    >>> change_to_json(rename_column("a", "b"))
    {'action': 'renameColumn', 'fieldNames': ['a'], 'newName': 'b'}
    """
    return {"action": _action(type(change)), **_members(change)}


def changes_to_json(changes: Iterable[SchemaChange]) -> list[Json]:
    return [change_to_json(change) for change in changes]


def _members(value: SchemaChange | Move) -> dict[str, Json]:
    return {camel_case(name): _to_json(getattr(value, name)) for name in value.__struct_fields__}


def _to_json(value: Any) -> Json:
    match value:
        case DataType():
            return type_to_json(value)
        case Move():
            return write_move(value)
        case MoveType():
            return value.value
        case _:
            return list(value) if isinstance(value, tuple) else cast("Json", value)


def write_move(move: Move) -> Json:
    return _members(move)


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


def changes_of(changes: Iterable[SchemaChange | Mapping[str, Any]]) -> tuple[SchemaChange, ...]:
    """Return changes, of which some may be documents: the members of their JSON."""
    return tuple(change_from_json(each) if isinstance(each, Mapping) else each for each in changes)


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
    values = {}
    for field in fields(kind):
        name = camel_case(field.name)
        if field.required:
            if name not in json:
                raise _wrong(f"'{action}' needs '{name}'")
        elif name not in json or (field.default is None and json[name] is None):
            continue
        values[field.name] = _READERS[field.name](json[name], f"'{name}' of '{action}'")
    change: SchemaChange = kind(**values)
    return change


def _wrong(reason: str) -> InvalidInputError:
    return InvalidInputError(f"No schema change: {reason}.", kind="schema-change")


def _optional_text(value: Json, where: str) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float | None):
        raise _wrong(f"{where} must be a text, not {value!r}")
    return None if value is None else str(value)


def _text(value: Json, where: str) -> str:
    text = _optional_text(value, where)
    if text is None:
        raise _wrong(f"{where} must not be null")
    return text


def _boolean(value: Json, where: str) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise _wrong(f"{where} must be true or false, not {value!r}")
    return str(value).lower() == "true"


def _path(value: Json, where: str) -> Path:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise _wrong(f"{where} must list names, not {value!r}")
    return tuple(map(str, names))


def _data_type(value: Json, where: str) -> DataType:
    try:
        return parse_type(value)
    except (FormatError, KeyError, TypeError, ValueError) as error:
        shown = error.message if isinstance(error, FormatError) else repr(value)
        raise _wrong(f"{where} is no data type: {shown}") from error


def read_move(value: Json, where: str = "the document") -> Move:
    if not isinstance(value, Mapping):
        raise _wrong(f"{where} must be an object, not {value!r}")
    texts = {}
    for name in ("type", "fieldName"):
        if name not in value:
            raise _wrong(f"'move' needs '{name}'")
        texts[name] = _text(value[name], f"'{name}' of 'move'")
    kind = texts["type"].upper()
    if kind not in MoveType.__members__:
        raise _wrong(f"'type' of 'move' must be one of {', '.join(MoveType)}, not {kind!r}")
    reference = value.get("referenceFieldName")
    return Move(
        field_name=texts["fieldName"],
        reference_field_name=None if reference is None else str(reference),
        type=MoveType(kind),
    )


_KINDS: Mapping[str, type[Any]] = {_action(kind): kind for kind in get_args(SchemaChange)}
_READERS: Mapping[str, Callable[[Json, str], Any]] = {
    **dict.fromkeys(("key", "value", "new_name"), _text),
    **dict.fromkeys(("comment", "new_comment", "new_default_value"), _optional_text),
    "field_names": _path,
    **dict.fromkeys(("data_type", "new_data_type"), _data_type),
    **dict.fromkeys(("keep_nullability", "new_nullability"), _boolean),
    "move": read_move,
}
"""Field of a change → how its member is read."""
