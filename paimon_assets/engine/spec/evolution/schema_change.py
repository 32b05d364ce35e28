"""SchemaChange: one alteration of a table's schema, as a value.

>>> changes = [rename_column("n", "net"), add_column("gross", "DECIMAL(10, 2)", after="net")]
>>> changes += [update_column_type("net", "DECIMAL(20, 0)"), move_column("net", first=True)]
>>> changes += [update_column_comment("net", "in euros"), update_column_default_value("net", "0")]
>>> changes += [set_option("target-file-size", "64 mb"), remove_option("snapshot.time-retained")]
>>> table = table.alter(changes)                       # one schema, or none
>>> changes = [drop_column("gross"), update_column_nullability("net", nullable=True)]
>>> table.alter_checked(changes, on_overflow=OnOverflow.ALLOW).changes == tuple(changes)
True

`spec.evolution.schema_evolution` applies or refuses them; `codec.rest.structure` has their JSON.
Source: `org.apache.paimon.schema.SchemaChange`.
"""

from collections.abc import Mapping
from enum import StrEnum

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import option_text
from paimon_assets.engine.spec.types.data_types import DataType
from paimon_assets.engine.spec.types.type_text import Json, type_of
from paimon_assets.engine.spec.values import Value

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


class Move(Value, rename="camel"):
    field_name: str
    reference_field_name: str | None = None
    """For AFTER and BEFORE."""
    type: MoveType


class SetOption(Value, rename="camel"):
    """Set a table option."""

    key: str
    value: str


class RemoveOption(Value, rename="camel"):
    """Reset a table option to its default."""

    key: str


class UpdateComment(Value, rename="camel"):
    """Set the table's comment; None removes it."""

    comment: str | None


class AddColumn(Value, rename="camel"):
    """Add a nullable column; files written before read as null."""

    field_names: Path
    data_type: DataType
    comment: str | None = None
    move: Move | None = None
    """Its place; None is the end."""


class RenameColumn(Value, rename="camel"):
    """Give a column another name; its id and values stay."""

    field_names: Path
    new_name: str


class DropColumn(Value, rename="camel"):
    """Drop a column; its id is never used again."""

    field_names: Path


class UpdateColumnType(Value, rename="camel"):
    """Give a column another type; values stored before are cast when they are read."""

    field_names: Path
    new_data_type: DataType
    keep_nullability: bool = False
    """Whether the column keeps its nullability, in spite of the new type's."""


class UpdateColumnNullability(Value, rename="camel"):
    """Let a column hold nulls, or refuse them."""

    field_names: Path
    new_nullability: bool
    """True is nullable."""


class UpdateColumnComment(Value, rename="camel"):
    """Set a column's comment; None removes it."""

    field_names: Path
    new_comment: str | None


class UpdateColumnDefaultValue(Value, rename="camel"):
    """Set the value that writers store where none is given; None removes it."""

    field_names: Path
    new_default_value: str | None


class UpdateColumnPosition(Value, rename="camel"):
    """Move a column within the schema."""

    move: Move


class DropPrimaryKey(Value, rename="camel"):
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
    """Add a nullable column at the end, or at the place by one of `after`, `before`, `first`."""
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
        message = f"Column '{name}' can go to one place only: say one of after, before and first."
        raise InvalidInputError(message, kind="schema-change", column=name)
    if first:
        return Move(field_name=name, type=MoveType.FIRST)
    if after is not None:
        return Move(field_name=name, reference_field_name=after, type=MoveType.AFTER)
    if before is not None:
        return Move(field_name=name, reference_field_name=before, type=MoveType.BEFORE)
    return Move(field_name=name, type=MoveType.LAST)
