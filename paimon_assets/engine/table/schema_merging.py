"""New columns and wider types of rows, added to the table before they are committed.

    column only in the rows            added, nullable                    `write.merge-schema`
    wider type in the rows             the column's type is widened       `….type-widening`
    anything else                      stays, and the writer checks every value

Widened are integers, FLOAT to DOUBLE, DECIMAL of the same scale, longer texts and bytes, finer
timestamps; key columns never. Nothing is narrowed, and nothing is cast with loss.
Source: `org.apache.paimon.schema.SchemaMergingUtils`.
"""

from collections.abc import Sequence

import pyarrow as pa

from paimon_assets.engine import errors
from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type, inferred_type
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.commit.planned_on import SCHEMA_CONFLICT
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_rules import is_widened_integer
from paimon_assets.engine.spec.types.data_types import AtomicType, DataType, TypeRoot

_MOST_TRIES = 10
_BY_LENGTH = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_BY_PRECISION = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.DECIMAL})
_LONGER = {TypeRoot.CHAR: TypeRoot.VARCHAR, TypeRoot.BINARY: TypeRoot.VARBINARY}


def schema_of(store: FileStore, rows: pa.Schema) -> tuple[FileStore, TableSchema | None]:
    """Return the table, and the schema it needs to hold some rows; None for its own.

    The schema is not published: `publish` does it, when the values of the rows are checked.
    """
    if not store.schema.typed_options.get(opt.WRITE_MERGE_SCHEMA):
        return store, None
    for _ in range(_MOST_TRIES):
        changes = merging_changes(store.schema, rows, table=store.label)
        if not changes:
            return store, None
        newest = store.current()
        if newest.schema.id == store.schema.id:
            new = store.schemas.evolve(changes, time_millis=SystemClock().now_millis())
            if new.id == store.schema.id + 1:
                return store, new.with_dynamic_options(store.dynamic_options)
        store = newest
    raise _conflict(store)


def publish(store: FileStore, new: TableSchema, rows: pa.Schema) -> FileStore:
    """Publish a schema of `schema_of`, and return the table with it.

    Raises:
        CommitConflictError: Kind `schema-conflict`: the table has another schema by now.
    """
    changes = merging_changes(store.schema, rows, table=store.label)
    try:
        made = store.schemas.commit_changes(changes, time_millis=new.time_millis, base=store.schema)
    except errors.CommitUnknownError:
        raise
    except errors.PaimonError:
        made = store.current().schema
        if made.id == store.schema.id:
            raise
    if (made.id, made.fields) != (new.id, new.fields):
        raise _conflict(store)
    return store.with_schema(made.with_dynamic_options(store.dynamic_options))


def _conflict(store: FileStore) -> errors.CommitConflictError:
    message = (
        f"Table '{store.label}' was changed by other writers while columns were added to it;"
        " write the rows again."
    )
    return errors.CommitConflictError(message, kind=SCHEMA_CONFLICT, table=store.label)


def merging_changes(
    schema: TableSchema, rows: pa.Schema, *, table: str
) -> Sequence[sc.SchemaChange]:
    """Return the changes by which a table takes rows of an Arrow schema."""
    widens = schema.typed_options.get(opt.WRITE_MERGE_SCHEMA_TYPE_WIDENING)
    fixed = {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}
    changes: list[sc.SchemaChange] = []
    for field in rows:
        column = schema.by_name.get(field.name)
        if column is None:
            changes.append(_new_column(schema, field, table))
        elif widens and field.name not in fixed and not pa.types.is_null(field.type):
            try:
                type_of_rows = from_arrow_type(field.type)
            except errors.InvalidInputError:
                continue  # the writer raises its error
            if is_wider(column.type, type_of_rows):
                changes.append(
                    sc.UpdateColumnType(
                        field_names=(field.name,), new_data_type=type_of_rows, keep_nullability=True
                    )
                )
    return changes


def _new_column(schema: TableSchema, field: "pa.Field[pa.DataType]", table: str) -> sc.AddColumn:
    alike = [name for name in schema.field_names if name.lower() == field.name.lower()]
    reason = f"the table has '{alike[0]}'; rename one of them" if alike else ""
    if not reason:
        try:
            return sc.AddColumn(field_names=(field.name,), data_type=inferred_type(field.type))
        except errors.InvalidInputError as error:
            reason = error.message
    message = f"Column '{field.name}' cannot be added to table '{table}': {reason}"
    raise errors.InvalidInputError(message, kind="merge-schema", table=table, column=field.name)


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
