"""The declared schema of an asset against the stored one, and the policies for differences.

    no table                         created
    as declared                      written
    differs ─▶ changes the policy makes ─▶ remaining differences? ───┬─▶ none: one new schema
                                                                     └─▶ an error, nothing altered

Without a policy only operational options are set: any other difference is an error. Integers may
be wider on one side, because every value is checked when it is written; and a table that merges the
schemas of rows (`write.merge-schema`) may have more than was declared. `build_schema_check` shows
the difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from paimon_assets.assets.failures import choice_of
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.evolution.schema_change import SchemaChange, SetOption
from paimon_assets.engine.spec.evolution.schema_diff import (
    Reconciliation,
    adding_changes,
    reconciling_changes,
)
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema, first_table_schema
from paimon_assets.engine.spec.types.cast_fit import keeps_all
from paimon_assets.engine.spec.types.cast_rules import is_widened_integer
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.schema_changes import ExecutorChoice
from paimon_assets.engine.table.table import Table


class SchemaPolicy(StrEnum):
    """Action of an asset where its declared schema differs from the stored one."""

    ERROR = "error"
    """The run fails and lists the differences; operational options, such as those of snapshots,
    tags and compaction, are set."""
    ADD = "add"
    """Declared columns that the table lacks are added, options and comments are set. Columns of the
    table that are not declared stay, and are null in written rows."""
    WIDEN = "widen"
    """As `add`; and types become wider where that keeps every value."""
    SYNC = "sync"
    """The table becomes as declared, undeclared columns are dropped; only a change that
    would lose other values is refused."""


_OPERATIONAL = (
    "snapshot.", "changelog.num-retained", "changelog.time-retained", "tag.", "consumer.",
    "compaction.", "num-sorted-run.", "write-only", "target-file-size", "read.batch-", "commit.",
    "partition.expiration-", "manifest.",
)  # fmt: skip
"""How options begin that decide when and how much, and not which rows there are."""
_MERGING = {opt.WRITE_MERGE_SCHEMA.key: "true"}
MERGED_BY: Mapping[SchemaPolicy, Mapping[str, str]] = {
    SchemaPolicy.ERROR: {},
    SchemaPolicy.ADD: _MERGING,
    SchemaPolicy.WIDEN: {**_MERGING, opt.WRITE_MERGE_SCHEMA_TYPE_WIDENING.key: "true"},
}
"""Policy → options of a write that does the same where nothing is declared but by the rows."""

SchemaLike = Any
"""A `Schema`, a mapping or Arrow's schema (`Schema.of`), a schema or model of pandera;
None for the columns of the first frame."""
_OF_PANDERA = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "int": "BIGINT",
    "uint8": "SMALLINT", "uint16": "INT", "uint32": "BIGINT",
    "float32": "FLOAT", "float64": "DOUBLE", "float": "DOUBLE", "bool": "BOOLEAN",
    "boolean": "BOOLEAN", "str": "STRING", "string": "STRING", "date": "DATE",
    "datetime64[ns]": "TIMESTAMP(9)", "datetime": "TIMESTAMP(6)",
}  # fmt: skip
"""Type of pandera, in small letters → ours."""


def declared_schema(
    schema: SchemaLike, primary_keys: Sequence[str] | str, partition_keys: Sequence[str] | str
) -> Schema:
    """Return the declared schema; without columns if the first frame shall give them.

    Raises:
        InvalidInputError: It is no schema; or keys are given beside a `Schema`, which has its own.
    """
    if isinstance(schema, Schema):
        if primary_keys or partition_keys:
            message = "Declare primary_keys and partition_keys in the Schema, not beside it."
            raise InvalidInputError(message, kind="schema")
        return schema
    if schema is None:
        primary_keys, partition_keys = (
            (keys,) if isinstance(keys, str) else tuple(keys)
            for keys in (primary_keys, partition_keys)
        )
        return Schema(fields=(), primary_keys=primary_keys, partition_keys=partition_keys)
    if any(base.__module__.startswith("pandera.") for base in getattr(schema, "__mro__", ())):
        schema = schema.to_schema()
    if type(schema).__module__.startswith("pandera."):
        schema = {name: _of_pandera(name, column) for name, column in schema.columns.items()}
    return Schema.of(schema, primary_keys=primary_keys, partition_keys=partition_keys)


def _of_pandera(name: str, column: Any) -> str:
    text = str(column.dtype).lower()
    our_type = _OF_PANDERA.get(text if "[" in text else text.partition("(")[0])
    if our_type is None:
        message = (
            f"Column '{name}' of the pandera schema has the type {column.dtype}, which names no "
            "type of a table. Declare the table by Schema.of, the rules by build_pandera_checks."
        )
        raise InvalidInputError(message, kind="schema", column=name)
    return our_type if column.nullable or not column.required else f"{our_type} NOT NULL"


class EnsuredTable(Value):
    """A table with the declared schema."""

    table: Table
    schema_before: int
    """Id of the schema before the run; another than the table's if the policy changed it."""


def schema_policy(text: str, table: str) -> SchemaPolicy:
    return choice_of(SchemaPolicy, text, "Schema policy", table, "schema-policy")


def ensure_table(
    catalog: TableCatalog,
    identifier: Identifier,
    schema: Schema,
    policy: SchemaPolicy = SchemaPolicy.ERROR,
    executor: ExecutorChoice = None,
    *,
    dry_run: bool = False,
) -> "EnsuredTable":
    """Return the table as declared, created if it is not there, with its database.

    The executor reads files whose values a change might lose; this process by default. A dry run
    refuses differences that the policy does not reach, and changes nothing.
    """
    try:
        table = catalog.get_table(identifier)
    except NotFoundError:
        if not dry_run:
            catalog.create_database(identifier.database, ignore_if_exists=True)
        table = catalog.create_table(identifier, schema, ignore_if_exists=True, dry_run=dry_run)
    before = table.schema.id
    if policy is SchemaPolicy.ERROR:
        changes = _operational_options(identifier, table, schema)
        if changes and not dry_run:
            table.alter(changes)
            table = table.refresh()
    else:
        change = _changes_of(policy, table.schema, schema)
        verify_schema(identifier, schema, change.result, policy, change.unreachable)
        if change.changes and not dry_run:
            table.alter_checked(change.changes, executor=executor)
            table = table.refresh()
    if not dry_run:
        verify_schema(identifier, schema, table.schema, policy)
    if policy in (SchemaPolicy.ADD, SchemaPolicy.WIDEN):
        table = table.copy({opt.WRITE_FILL_MISSING.key: "true"})
    return EnsuredTable(table=table, schema_before=before)


def _operational_options(
    identifier: Identifier, table: Table, declared: Schema
) -> list[SchemaChange]:
    """Return changes to the declared values of options that change no row and no file format.

    Raises:
        InvalidInputError: Something else differs, too.
    """
    stored = table.schema.options
    changed = {
        key: value
        for key, value in declared.options.items()
        if key.startswith(_OPERATIONAL) and stored.get(key) != value
    }
    rest = {key: value for key, value in declared.options.items() if key not in changed}
    verify_schema(identifier, replace(declared, options=rest), table.schema)
    return [SetOption(key=key, value=value) for key, value in changed.items()]


def verify_schema(
    identifier: Identifier,
    declared: Schema,
    stored: TableSchema,
    policy: SchemaPolicy = SchemaPolicy.ERROR,
    unreachable: tuple[str, ...] = (),
) -> None:
    """Refuse a stored schema that differs from the declared one more than the policy allows.

    `unreachable` are sentences on differences that the policy's changes do not reach.
    """
    expected = _as_tolerated(stored, declared, policy)
    if not any(schema_differences(expected, stored)):
        return
    shown = declared if policy is SchemaPolicy.ERROR else expected
    differences = list(schema_differences(shown, stored))
    if reach := [f"'{each}'" for each in SchemaPolicy if _reaches(each, stored, declared)]:
        way_out = f", evolve the table, or let the asset do it (schema_policy {' or '.join(reach)})"
    elif policy is SchemaPolicy.ERROR:
        way_out = " or evolve the table"
        unreachable = _changes_of(SchemaPolicy.SYNC, stored, declared).unreachable
    else:
        way_out = f" or evolve the table; the schema policy '{policy}' does not reach it"
    why = f" {' '.join(unreachable)}" if unreachable else ""
    raise InvalidInputError(
        f"Table {identifier} is not as the asset declares: {'; '.join(differences)}.{why} "
        f"Change the declaration{way_out}.",
        kind="schema-drift",
        table=str(identifier),
        differences=len(differences),
    )


def _changes_of(policy: SchemaPolicy, stored: TableSchema, declared: Schema) -> Reconciliation:
    if policy is SchemaPolicy.SYNC:
        return reconciling_changes(stored, declared)
    return adding_changes(stored, declared, widens=policy is SchemaPolicy.WIDEN)


def _reaches(policy: SchemaPolicy, stored: TableSchema, declared: Schema) -> bool:
    """Whether the changes of a policy make the stored schema one that the declaration accepts."""
    if policy is SchemaPolicy.ERROR:
        return False
    result = _changes_of(policy, stored, declared).result
    return not any(schema_differences(_as_tolerated(result, declared, policy), result))


def _as_tolerated(stored: TableSchema, declared: Schema, policy: SchemaPolicy) -> Schema:
    """Return the declared schema, with the stored value wherever the policy allows a difference."""
    options = stored.typed_options
    merges = policy is not SchemaPolicy.SYNC and options.get(opt.WRITE_MERGE_SCHEMA)
    widens = bool(merges and options.get(opt.WRITE_MERGE_SCHEMA_TYPE_WIDENING))

    def fit_field(field: DataField) -> DataField:
        """Return a column with the stored type, if that holds its values or refuses the rest."""
        have = stored.by_name.get(field.name)
        if have is None:
            return field
        pair = (field.type, have.type)
        fits = is_widened_integer(*pair) or is_widened_integer(*pair[::-1])
        if not fits and not (widens and keeps_all(*pair)):
            return field
        return replace(field, type=replace(have.type, nullable=field.type.nullable))

    fields = [fit_field(field) for field in declared.fields]
    if merges or policy in (SchemaPolicy.ADD, SchemaPolicy.WIDEN):
        names = {field.name for field in fields}
        fields += [field for field in stored.fields if field.name not in names]
        position = {name: number for number, name in enumerate(stored.field_names)}
        fields.sort(key=lambda field: position.get(field.name, len(position)))
    return replace(declared, fields=tuple(fields))


def schema_differences(declared: Schema, stored: TableSchema) -> Iterator[str]:
    """Yield how a stored schema differs from a declared one, as sentences without a full stop.

    Comments may differ, and the table may have options the declaration does not name.
    """
    expected = first_table_schema(declared, time_millis=0)
    yield from column_differences(declared, stored)
    if set(expected.field_names) == set(stored.field_names):
        yield from _differing("column order", expected.field_names, stored.field_names)
    yield from _differing("primary key", expected.primary_keys, stored.primary_keys)
    yield from _differing("partition keys", expected.partition_keys, stored.partition_keys)
    for key, value in expected.options.items():
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
                f"the comment of column '{field.name}' is declared {_quote(field.description)} "
                f"but stored {_quote(have.description)}"
            )
    if declared.comment != stored.comment:
        yield (
            f"the table's comment is declared {_quote(declared.comment)} but stored "
            f"{_quote(stored.comment)}"
        )


def _quote(text: str | None) -> str:
    return "none" if text is None else f"'{text}'"


def column_differences(declared: Schema, stored: TableSchema) -> Iterator[str]:
    """Yield how the names and types of a stored schema's columns differ from declared ones."""
    expected = first_table_schema(declared, time_millis=0).by_name
    for name, field in expected.items():
        have = stored.by_name.get(name)
        if have is None:
            yield f"column '{name}' {field.type} is declared but not in the table"
        elif str(have.type) != str(field.type):
            yield f"column '{name}' is declared {field.type} but stored {have.type}"
    for name, field in stored.by_name.items():
        if name not in expected:
            yield f"column '{name}' {field.type} is in the table but not declared"


def _differing(noun: str, expected: tuple[str, ...], stored: tuple[str, ...]) -> Iterator[str]:
    if expected != stored:
        texts = [f"({', '.join(names)})" if names else "none" for names in (expected, stored)]
        yield f"{noun} is declared {texts[0]} but stored {texts[1]}"
