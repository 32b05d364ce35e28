"""How two schemas differ, as lines of a table, and the changes from a stored one to a declared one.

Stored schemas match columns by id: a renamed column is one line, a dropped and re-added one is two.
A declared schema matches by name. A column that the table lacks is taken as renamed if the table
has one that is not declared, and these two alone have their type: dropping would lose its values.
"""

from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.evolution import schema_change as sc
from paimon_assets.engine.spec.evolution.schema_evolution import apply_changes
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema, first_table_schema
from paimon_assets.engine.spec.types.cast_fit import keeps_all
from paimon_assets.engine.spec.types.cast_rules import same_type
from paimon_assets.engine.spec.types.data_types import DataField, bare_text
from paimon_assets.engine.spec.values import Value


class SchemaDifference(Value):
    subject: str
    """`column`, `option <key>`, `comment` or `primary key`."""
    change: str
    """Kind of the change, such as `added` or `renamed, type`."""
    before: str | None
    after: str | None
    field_id: int | None = None


def schema_diff(old: TableSchema, new: TableSchema) -> tuple[SchemaDifference, ...]:
    """Return the differences: columns in the order of the new schema, dropped ones, the rest."""
    return (*_columns(old, new), *_rest(old, new))


def _columns(old: TableSchema, new: TableSchema) -> Iterator[SchemaDifference]:
    moved = _shift(old, new)
    for field in new.fields:
        before = old.by_id.get(field.id)
        if before is None:
            change = "added"
        else:
            change = ", ".join(_changes(before, field, is_moved=field.id in moved))
        if change:
            yield SchemaDifference(
                subject="column",
                change=change,
                before=None if before is None else describe(before),
                after=describe(field),
                field_id=field.id,
            )
    for field in old.fields:
        if field.id not in new.by_id:
            before_it = describe(field)
            yield SchemaDifference(
                subject="column", change="dropped", before=before_it, after=None, field_id=field.id
            )


def _changes(old: DataField, new: DataField, *, is_moved: bool) -> Iterator[str]:
    if old.name != new.name:
        yield "renamed"
    if bare_text(old.type) != bare_text(new.type):
        yield "type"
    if old.type.nullable != new.type.nullable:
        yield "nullability"
    if is_moved:
        yield "moved"
    if old.description != new.description:
        yield "comment"
    if old.default_value != new.default_value:
        yield "default"


def _rest(old: TableSchema, new: TableSchema) -> Iterator[SchemaDifference]:
    for key in sorted({*old.options, *new.options}):
        before, after = old.options.get(key), new.options.get(key)
        if before != after:
            change = "set" if before is None else "removed" if after is None else "changed"
            yield SchemaDifference(
                subject=f"option {key}", change=change, before=before, after=after
            )
    if old.comment != new.comment:
        yield SchemaDifference(
            subject="comment", change="changed", before=old.comment, after=new.comment
        )
    if len(old.primary_keys) != len(new.primary_keys):
        yield SchemaDifference(
            subject="primary key", change="dropped", before=", ".join(old.primary_keys), after=None
        )


def first_unkept(older: TableSchema, newer: TableSchema) -> DataField | None:
    """Return the first column of the older schema that the newer one need not show unchanged.

    It was dropped, takes no nulls any more, or has a type that lacks some of its values. Columns
    are matched by id.
    """
    for field in older.fields:
        now = newer.by_id.get(field.id)
        refuses_nulls = now is not None and field.type.nullable and not now.type.nullable
        if now is None or refuses_nulls or not keeps_all(field.type, now.type):
            return field
    return None


def describe(field: DataField) -> str:
    """Return a column as people declare it.

    >>> from paimon_assets.engine.spec.types.data_types import integer
    >>> describe(DataField(id=0, name="a", type=integer(), default_value="5"))
    "a INT DEFAULT '5'"
    """
    text = f"{field.name} {field.type}"
    if field.default_value is not None:
        text += f" DEFAULT '{field.default_value}'"
    return text if field.description is None else f"{text} COMMENT '{field.description}'"


def _shift(old: TableSchema, new: TableSchema) -> set[int]:
    """Return the fewest columns that, moved alone, explain the new order.

    The rest are a longest rising subsequence of the columns' old places.
    """
    position = {field.id: index for index, field in enumerate(old.fields)}
    common = [field.id for field in new.fields if field.id in position]
    tails: list[int] = []
    before: dict[int, int | None] = {}
    for number in (position[field_id] for field_id in common):
        at = bisect_left(tails, number)
        before[number] = tails[at - 1] if at else None
        tails[at : at + 1] = [number]
    stayed, last = set(), tails[-1] if tails else None
    while last is not None:
        stayed.add(last)
        last = before[last]
    return {field_id for field_id in common if position[field_id] not in stayed}


class Reconciliation(Value):
    """The changes that lead from one schema to another."""

    changes: tuple[sc.SchemaChange, ...]
    """In order; together they are legal."""
    result: TableSchema
    """The schema they make."""
    unreachable: tuple[str, ...] = ()
    """Declared properties that they do not reach, as sentences."""


def reconciling_changes(stored: TableSchema, declared: Schema) -> Reconciliation:
    """Return the changes from the stored schema to the declared one; more options stay."""
    draft = _Draft.of(stored, declared)
    for old, new in _renames(stored, draft.target):
        draft.take(sc.rename_column(old, new))
    for name in draft.schema.field_names:
        if name not in draft.target.by_name:
            draft.take(sc.drop_column(name))
    for field in draft.target.fields:
        draft.take_column(field)
    names = [name for name in draft.target.field_names if name in draft.schema.by_name]
    for position, name in enumerate(names):
        if draft.schema.field_names[position] != name:
            after = names[position - 1] if position else None
            draft.take(sc.move_column(name, after=after, first=not position))
    return draft.finish()


def adding_changes(stored: TableSchema, declared: Schema, *, widens: bool) -> Reconciliation:
    """Return the changes that add the declared columns and options, and remove nothing."""
    draft = _Draft.of(stored, declared)
    for field in draft.target.fields:
        have = stored.by_name.get(field.name)
        if have is None:
            draft.add(field)
            continue
        wider = keeps_all(have.type, field.type)
        if widens and wider and not same_type(have.type, field.type):
            draft.take(sc.update_column_type(field.name, field.type))
        if widens and field.type.nullable and not have.type.nullable:
            draft.take(sc.update_column_nullability(field.name, nullable=True))
        if have.description != field.description:
            draft.take(sc.update_column_comment(field.name, field.description))
    return draft.finish()


class _Draft(Struct):
    target: TableSchema
    schema: TableSchema
    """As the changes so far would make it."""
    changes: list[sc.SchemaChange]
    unreachable: list[str]

    @staticmethod
    def of(stored: TableSchema, declared: Schema) -> "_Draft":
        target, unreachable = first_table_schema(declared, time_millis=0), []
        for keys, old, new in (
            ("primary key", stored.primary_keys, target.primary_keys),
            ("partition keys", stored.partition_keys, target.partition_keys),
        ):
            if old != new:
                unreachable.append(
                    f"The {keys} cannot change from ({', '.join(old)}) to ({', '.join(new)}):"
                    " create the table again."
                )
        return _Draft(target, stored, [], unreachable)

    def take(self, change: sc.SchemaChange) -> None:
        try:
            self.schema = apply_changes(self.schema, [change], has_snapshots=True, time_millis=0)
        except PaimonError as error:
            self.unreachable.append(error.message)
        else:
            self.changes.append(change)

    def add(self, field: DataField) -> None:
        nullable, comment = replace(field.type, nullable=True), field.description
        self.take(sc.AddColumn(field_names=(field.name,), data_type=nullable, comment=comment))

    def take_column(self, field: DataField) -> None:
        name = field.name
        if name not in self.schema.by_name:
            self.add(field)
        have = self.schema.by_name.get(name)
        if have is None:
            return
        if not same_type(have.type, field.type):
            self.take(sc.update_column_type(name, field.type))
        if have.type.nullable != field.type.nullable:
            self.take(sc.update_column_nullability(name, nullable=field.type.nullable))
        if have.description != field.description:
            self.take(sc.update_column_comment(name, field.description))
        if have.default_value != field.default_value:
            self.take(sc.update_column_default_value(name, field.default_value))

    def finish(self) -> Reconciliation:
        """Take options and comment, and return the result."""
        for key, value in self.target.options.items():
            if self.schema.options.get(key) != value:
                self.take(sc.SetOption(key=key, value=value))
        if self.target.comment != self.schema.comment:
            self.take(sc.UpdateComment(comment=self.target.comment))
        return Reconciliation(
            changes=tuple(self.changes), result=self.schema, unreachable=tuple(self.unreachable)
        )


def _renames(stored: TableSchema, declared: TableSchema) -> Iterator[tuple[str, str]]:
    """Yield (name, new name) where only one pair of unknown columns has a type."""
    extra = [field for field in stored.fields if field.name not in declared.by_name]
    missing = [field for field in declared.fields if field.name not in stored.by_name]
    for have in extra:
        matches = [field for field in missing if same_type(have.type, field.type)]
        rivals = [field for field in extra if same_type(have.type, field.type)]
        if len(matches) == len(rivals) == 1:
            yield have.name, matches[0].name
