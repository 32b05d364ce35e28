"""New columns and wider types of rows, added to the table before they are written.

    column only in the rows            added, nullable                    `write.merge-schema`
    wider type in the rows             the column's type is widened       `….type-widening`
    anything else                      stays, and the writer checks every value

Widened are integers, FLOAT to DOUBLE, DECIMAL of the same scale, longer texts and bytes, finer
timestamps; key columns never. Nothing is narrowed, and nothing is cast with loss.
Source: `org.apache.paimon.schema.SchemaMergingUtils`.
"""

from collections.abc import Sequence

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type, inferred_type
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import (
    AddColumn,
    SchemaChange,
    UpdateColumnType,
)
from paimon_assets.engine.spec.options.all_options import (
    WRITE_MERGE_SCHEMA,
    WRITE_MERGE_SCHEMA_TYPE_WIDENING,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_rules import is_widened_integer
from paimon_assets.engine.spec.types.data_types import AtomicType, DataType, TypeRoot

_MOST_TRIES = 10
_BY_LENGTH = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_BY_PRECISION = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.DECIMAL})
_LONGER = {TypeRoot.CHAR: TypeRoot.VARCHAR, TypeRoot.BINARY: TypeRoot.VARBINARY}


def merged_with(store: FileStore, rows: pa.Schema) -> FileStore:
    """Return the table with the columns of some rows added, if `write.merge-schema` is set."""
    if not store.schema.typed_options.get(WRITE_MERGE_SCHEMA):
        return store
    for _ in range(_MOST_TRIES):
        changes = merging_changes(store.schema, rows, table=store.label)
        if not changes:
            return store
        newest = store.schemas.latest() or store.schema
        if newest.id == store.schema.id:
            try:
                newest = store.schemas.commit_changes(
                    changes, time_millis=SystemClock().now_millis(), base=newest
                )
            except CommitConflictError:
                newest = store.schemas.latest() or newest
        store = store.with_schema(newest.with_dynamic_options(store.dynamic_options))
    message = (
        f"Table '{store.label}' was changed by other writers {_MOST_TRIES} times while columns were"
        " added to it; write again."
    )
    raise CommitConflictError(message, kind="schema-conflict", table=store.label)


def merging_changes(schema: TableSchema, rows: pa.Schema, *, table: str) -> Sequence[SchemaChange]:
    """Return the changes by which a table takes rows of an Arrow schema."""
    widens = schema.typed_options.get(WRITE_MERGE_SCHEMA_TYPE_WIDENING)
    fixed = {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}
    changes: list[SchemaChange] = []
    for field in rows:
        column = schema.by_name.get(field.name)
        if column is None:
            changes.append(_new_column(schema, field, table))
        elif widens and field.name not in fixed and not pa.types.is_null(field.type):
            try:
                type_of_rows = from_arrow_type(field.type)
            except InvalidInputError:
                continue  # the writer raises its error
            if is_wider(column.type, type_of_rows):
                changes.append(
                    UpdateColumnType(
                        field_names=(field.name,), new_data_type=type_of_rows, keep_nullability=True
                    )
                )
    return changes


def _new_column(schema: TableSchema, field: "pa.Field[pa.DataType]", table: str) -> AddColumn:
    alike = [name for name in schema.field_names if name.lower() == field.name.lower()]
    reason = f"the table has '{alike[0]}'; rename one of them" if alike else ""
    if not reason:
        try:
            return AddColumn(field_names=(field.name,), data_type=inferred_type(field.type))
        except InvalidInputError as error:
            reason = error.message
    message = f"Column '{field.name}' cannot be added to table '{table}': {reason}"
    raise InvalidInputError(message, kind="merge-schema", table=table, column=field.name)


def is_wider(column: DataType, wider: DataType) -> bool:
    """Whether a type holds every value of the column's type, and more."""
    if not isinstance(column, AtomicType) or not isinstance(wider, AtomicType):
        return False
    if is_widened_integer(column, wider):
        return True
    if (column.root, wider.root) == (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return True
    if wider.root not in (column.root, _LONGER.get(column.root)):
        return False
    if column.root in _BY_LENGTH:
        return (wider.length or 0) > (column.length or 0)
    return (
        column.root in _BY_PRECISION
        and (wider.scale or 0) == (column.scale or 0)
        and (wider.precision or 0) > (column.precision or 0)
    )
