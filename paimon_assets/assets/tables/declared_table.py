"""The declared schema of an asset against the stored table: create it, or verify that they agree.

Nothing is altered here: a difference is an error that says what differs. Evolving a table is a
deliberate act of its own. Only integers may be wider on one side, because every value is checked
when it is written: a table can be widened before or after its declaration. `build_schema_check`
shows the difference.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema, first_table_schema
from paimon_assets.engine.spec.types.cast_rules import is_widened_integer
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.table import Table


def ensure_table(catalog: TableCatalog, identifier: Identifier, schema: Schema) -> Table:
    """Return the table, created if it is not there, with its database.

    Args:
        catalog: Where the table lies.
        identifier: The table.
        schema: As declared by the asset.

    Raises:
        InvalidInputError: The stored schema differs from the declared one (kind `schema-drift`);
            lists every difference. Or the declared schema is no legal one.
    """
    try:
        table = catalog.get_table(identifier)
    except NotFoundError:
        catalog.create_database(identifier.database, ignore_if_exists=True)
        table = catalog.create_table(identifier, schema, ignore_if_exists=True)
    verify_schema(identifier, schema, table.schema)
    return table


def verify_schema(identifier: Identifier, declared: Schema, stored: TableSchema) -> None:
    """Refuse a stored schema that is not the declared one, but for the width of integers.

    Raises:
        InvalidInputError: They differ; lists every difference.
    """
    if any(schema_differences(_as_wide_as(stored, declared), stored)):
        differences = list(schema_differences(declared, stored))
        raise InvalidInputError(
            f"Table {identifier} is not what the asset declares: {'; '.join(differences)}. Change "
            "the declaration, or evolve the table before materializing.",
            kind="schema-drift",
            details={"table": str(identifier), "differences": len(differences)},
        )


def _as_wide_as(stored: TableSchema, declared: Schema) -> Schema:
    """Return the declared schema with integers as wide as they are stored."""

    def fitted(field: DataField) -> DataField:
        have = stored.by_name.get(field.name)
        pair = (field.type, have.type) if have is not None else None
        if pair is None or not (is_widened_integer(*pair) or is_widened_integer(*pair[::-1])):
            return field
        return replace(field, type=replace(pair[1], nullable=field.type.nullable))

    return replace(declared, fields=tuple(map(fitted, declared.fields)))


def schema_differences(declared: Schema, stored: TableSchema) -> Iterator[str]:
    """Yield how a stored schema differs from a declared one, as sentences without a full stop.

    Comments may differ, and the table may have options the declaration does not name.
    """
    wanted = first_table_schema(declared, time_millis=0)
    yield from _column_differences(wanted.by_name, stored.by_name)
    if set(wanted.field_names) == set(stored.field_names):
        yield from _differing("column order", wanted.field_names, stored.field_names)
    yield from _differing("primary key", wanted.primary_keys, stored.primary_keys)
    yield from _differing("partition keys", wanted.partition_keys, stored.partition_keys)
    for key, value in wanted.options.items():
        have = stored.options.get(key)
        if have != value:
            shown = "not set" if have is None else f"'{have}'"
            yield f"option '{key}' is declared '{value}' but stored {shown}"


def comment_differences(declared: Schema, stored: TableSchema) -> Iterator[str]:
    """Yield how the comments of a stored schema differ from the declared ones."""
    for field in declared.fields:
        have = stored.by_name.get(field.name)
        if have is not None and have.description != field.description:
            yield (
                f"the comment of column '{field.name}' is declared {_quoted(field.description)} "
                f"but stored {_quoted(have.description)}"
            )
    if declared.comment != stored.comment:
        yield (
            f"the table's comment is declared {_quoted(declared.comment)} but stored "
            f"{_quoted(stored.comment)}"
        )


def _quoted(text: str | None) -> str:
    return "none" if text is None else f"'{text}'"


def _column_differences(
    wanted: Mapping[str, DataField], stored: Mapping[str, DataField]
) -> Iterator[str]:
    for name, field in wanted.items():
        have = stored.get(name)
        if have is None:
            yield f"column '{name}' {field.type} is declared but not in the table"
        elif str(have.type) != str(field.type):
            yield f"column '{name}' is declared {field.type} but stored {have.type}"
    for name, field in stored.items():
        if name not in wanted:
            yield f"column '{name}' {field.type} is in the table but not declared"


def _differing(what: str, wanted: tuple[str, ...], stored: tuple[str, ...]) -> Iterator[str]:
    if wanted != stored:
        yield f"{what} is declared {_names(wanted)} but stored {_names(stored)}"


def _names(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})" if names else "none"
