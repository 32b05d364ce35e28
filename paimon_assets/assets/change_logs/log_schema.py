"""The schema of a source in its log, followed by that of the table, as the policy says.

    columns of the newest record ─┬─ new     ─▶ added           add, widen, sync
    (typed records and DDL)       ├─ wider   ─▶ wider           widen, sync
                                  ├─ other   ─▶ changed         sync, if no stored value is lost
                                  └─ gone    ─▶ dropped         sync; else the run stops

A log does not say that a column was renamed: one is gone and another is new. `ChangeLog.renamed`
says it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from paimon_assets.assets.change_logs.change_log import ChangeLog
from paimon_assets.assets.tables.declared_table import SchemaPolicy
from paimon_assets.engine.data.change_logs.log_positions import LogHead, SeenSchema
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    UpdateColumnType,
)
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField, DataType
from paimon_assets.engine.spec.words import shorten
from paimon_assets.engine.table.schema_merging import is_wider


@dataclass(frozen=True, kw_only=True)
class FollowedSchema:
    """What becomes of the table's schema."""

    columns: Mapping[str, str]
    """Column → type, of the newest record that tells all of them; kept in the ledger."""
    changes: list[SchemaChange] = field(default_factory=list)
    gone: frozenset[str] = frozenset()
    """Columns that older records have and the source has no more."""


def followed_schema(
    seen: Sequence[SeenSchema],
    head: LogHead,
    source: str,
    schema: TableSchema,
    log: ChangeLog,
    policy: SchemaPolicy,
) -> FollowedSchema:
    """Plan the changes of a table's schema by what a source's records and events tell.

    Raises:
        InvalidInputError: Kind `cdc-schema`: the source lost columns, and the policy does not
            follow; or it may have renamed one.
    """
    whole = sorted(
        (each for each in seen if each.is_whole), key=lambda each: (each.position, each.is_event)
    )
    since = [e.fields for e in whole if not head.columns or e.position > head.state.high]
    newest = since[-1] if since else ()
    columns = {column.name: str(column.type) for column in newest} or dict(head.columns)
    before = {*head.columns} or {column.name for column in (since[0] if since else ())}
    ever = before.union(*({column.name for column in fields} for fields in since))
    late = {column.name for each in whole for column in each.fields} if columns else set()
    gone = (ever | late) - {*columns}
    renamed = {old: new for old, new in log.renamed.items() if new and old in schema.by_name}
    lost = sorted(ever - {*columns} - {*renamed})
    new = sorted({*columns} - before - {*renamed.values()})
    if lost and policy is not SchemaPolicy.SYNC:
        _refuse(
            source,
            f"no longer has {shorten(lost)}{f', and has now {shorten(new)}' if new else ''}",
            "Follow it (schema_policy='sync'), or leave the column out (omitted)",
        )
    unsaid = [name for name in lost if name not in log.renamed]
    if unsaid and new:
        types = {column.name: str(column.type) for fields in since for column in fields}
        types = {**types, **head.columns, **columns}
        alike = next((name for name in new if types[name] == types[unsaid[0]]), new[0])
        _refuse(
            source,
            f"no longer has {shorten(unsaid)}, and has now {shorten(new)}",
            f"If that is a new name, say ChangeLog(renamed={{'{unsaid[0]}': '{alike}'}}), which "
            f"may stay; else renamed={{'{unsaid[0]}': ''}}",
        )
    defaults = set[str]().union(*(each.defaults for each in seen))
    filled = [name for name in new if name in defaults and name not in schema.by_name]
    if filled and log.on_default == "refuse":
        _refuse(
            source,
            f"has now {shorten(filled)} with a default, which rows have that no record names",
            "Say ChangeLog(on_default='null') to have null there, until the source sends them",
        )
    planned: list[SchemaChange] = []
    if policy is SchemaPolicy.SYNC:
        planned += (
            RenameColumn(field_names=(old,), new_name=new)
            for old, new in renamed.items()
            if new not in schema.by_name
        )
        planned += (DropColumn(field_names=(n,)) for n in lost if n in schema.by_name)
    if policy is not SchemaPolicy.ERROR:
        known = {
            renamed.get(name, name): column.type
            for name, column in schema.by_name.items()
            if name not in lost
        }
        fixed = {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}
        taken = [each for one in seen for each in one.fields if each.name not in gone]
        planned += _added(taken, known, fixed, widens=policy is not SchemaPolicy.ADD)
        if policy is SchemaPolicy.SYNC:
            planned += _narrowed(newest, known, head.columns, fixed)
    return FollowedSchema(columns=columns, changes=planned, gone=frozenset(gone))


def _refuse(source: str, what: str, way_out: str) -> None:
    raise InvalidInputError(
        f"The source '{source}' {what}. Nothing was committed. {way_out}.",
        kind="cdc-schema",
        details={"table": source},
    )


def _added(
    fields: Sequence[DataField], known: dict[str, DataType], fixed: set[str], *, widens: bool
) -> Iterator[SchemaChange]:
    """Yield new columns and wider types.

    Columns in other types that are no wider stay; the writer checks every value.
    """
    for column in fields:
        have, wanted = known.get(column.name), replace(column.type, nullable=True)
        if have is None:
            yield AddColumn(field_names=(column.name,), data_type=wanted)
        elif widens and column.name not in fixed and is_wider(have, wanted):
            yield _retyped(column.name, wanted)
        else:
            continue
        known[column.name] = wanted


def _narrowed(
    fields: Sequence[DataField], known: Mapping[str, DataType], before: Mapping[str, str],
    fixed: set[str],
) -> Iterator[SchemaChange]:  # fmt: skip
    """Yield the types that the source changed otherwise, of columns that had its type."""
    for column in fields:
        have, wanted = known.get(column.name), replace(column.type, nullable=True)
        was = before.get(column.name)
        if have is None or was is None or was == str(column.type) or column.name in fixed:
            continue
        if str(replace(have, nullable=True)) == was and have != wanted:
            yield _retyped(column.name, wanted)


def _retyped(name: str, wanted: DataType) -> SchemaChange:
    return UpdateColumnType(field_names=(name,), new_data_type=wanted, keep_nullability=True)
