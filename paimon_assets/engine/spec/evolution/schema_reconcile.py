"""The changes from a stored schema to a declared one.

Columns are matched by name. A declared column that the table lacks is taken as renamed if the table
has one that nobody declares, and these two alone have their type: dropping would lose its values.
What no change reaches (keys, partitions, refused changes) is said in words.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.evolution.schema_change import (
    AddColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    drop_column,
    move_column,
    rename_column,
    update_column_comment,
    update_column_default_value,
    update_column_nullability,
    update_column_type,
)
from paimon_assets.engine.spec.evolution.schema_evolution import apply_changes
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema, first_table_schema
from paimon_assets.engine.spec.types.cast_fit import keeps_all
from paimon_assets.engine.spec.types.cast_rules import same_type
from paimon_assets.engine.spec.types.data_types import DataField


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The changes that lead from one schema to another."""

    changes: tuple[SchemaChange, ...]
    """In order; together they are legal."""
    result: TableSchema
    """The schema they make."""
    unreachable: tuple[str, ...] = ()
    """What they do not reach, as sentences."""


def reconciling_changes(stored: TableSchema, declared: Schema) -> Reconciliation:
    """Return the changes that lead from the stored schema to the declared one.

    Options that the table has beyond the declared ones stay.
    """
    wanted = first_table_schema(declared, time_millis=0)
    found = _Draft(schema=stored, changes=[], unreachable=list(_keys(stored, wanted)))
    for old, new in _rename(stored, wanted):
        found.take(rename_column(old, new))
    for name in found.schema.field_names:
        if name not in wanted.by_name:
            found.take(drop_column(name))
    for field in wanted.fields:
        _column(found, field)
    _order(found, wanted)
    _rest(found, wanted)
    return found.all()


def adding_changes(stored: TableSchema, declared: Schema, *, widens: bool) -> Reconciliation:
    """Return the changes that add the declared columns and options, and remove nothing."""
    wanted = first_table_schema(declared, time_millis=0)
    found = _Draft(schema=stored, changes=[], unreachable=list(_keys(stored, wanted)))
    for field in wanted.fields:
        have = stored.by_name.get(field.name)
        if have is None:
            found.take(_add(field))
            continue
        wider = keeps_all(have.type, field.type)
        if widens and wider and not same_type(have.type, field.type):
            found.take(update_column_type(field.name, field.type))
        if widens and field.type.nullable and not have.type.nullable:
            found.take(update_column_nullability(field.name, nullable=True))
        if have.description != field.description:
            found.take(update_column_comment(field.name, field.description))
    _rest(found, wanted)
    return found.all()


def _rest(found: "_Draft", wanted: TableSchema) -> None:
    for key, value in wanted.options.items():
        if found.schema.options.get(key) != value:
            found.take(SetOption(key=key, value=value))
    if wanted.comment != found.schema.comment:
        found.take(UpdateComment(comment=wanted.comment))


@dataclass(slots=True)
class _Draft:
    schema: TableSchema
    """As the changes so far would make it."""
    changes: list[SchemaChange]
    unreachable: list[str]

    def all(self) -> Reconciliation:
        """Return the result."""
        return Reconciliation(
            changes=tuple(self.changes), result=self.schema, unreachable=tuple(self.unreachable)
        )

    def take(self, change: SchemaChange) -> None:
        """Add a change, or say why it cannot be made."""
        try:
            self.schema = apply_changes(self.schema, [change], has_snapshots=True, time_millis=0)
        except PaimonError as error:
            self.unreachable.append(error.message)
        else:
            self.changes.append(change)


def _keys(stored: TableSchema, wanted: TableSchema) -> Iterator[str]:
    for what, have, want in (
        ("primary key", stored.primary_keys, wanted.primary_keys),
        ("partition keys", stored.partition_keys, wanted.partition_keys),
    ):
        if have != want:
            yield (
                f"The {what} cannot change from ({', '.join(have)}) to ({', '.join(want)}): create "
                "the table again."
            )


def _rename(stored: TableSchema, wanted: TableSchema) -> Iterator[tuple[str, str]]:
    """Yield (name, new name) where only one pair of unknown columns has a type."""
    extra = [field for field in stored.fields if field.name not in wanted.by_name]
    missing = [field for field in wanted.fields if field.name not in stored.by_name]
    for have in extra:
        matches = [field for field in missing if same_type(have.type, field.type)]
        rivals = [field for field in extra if same_type(have.type, field.type)]
        if len(matches) == len(rivals) == 1:
            yield have.name, matches[0].name


def _column(found: _Draft, field: DataField) -> None:
    name = field.name
    have = found.schema.by_name.get(name)
    if have is None:
        found.take(_add(field))
        have = found.schema.by_name.get(name)
        if have is None:
            return
    if not same_type(have.type, field.type):
        found.take(update_column_type(name, field.type))
    if have.type.nullable != field.type.nullable:
        found.take(update_column_nullability(name, nullable=field.type.nullable))
    if have.description != field.description:
        found.take(update_column_comment(name, field.description))
    if have.default_value != field.default_value:
        found.take(update_column_default_value(name, field.default_value))


def _add(field: DataField) -> AddColumn:
    data_type = replace(field.type, nullable=True)
    return AddColumn(field_names=(field.name,), data_type=data_type, comment=field.description)


def _order(found: _Draft, wanted: TableSchema) -> None:
    names = [name for name in wanted.field_names if name in found.schema.by_name]
    for position, name in enumerate(names):
        if found.schema.field_names[position] != name:
            after = names[position - 1] if position else None
            found.take(move_column(name, after=after, first=not position))
