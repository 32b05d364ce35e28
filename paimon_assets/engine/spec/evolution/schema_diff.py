"""How two schemas of one table differ, as lines of a table: subject, field id, before, after.

And whether rows written by the one mean the same by the other (`first_unkept`).

Columns are matched by id: a renamed column is one line, a dropped and re-added one is two.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_fit import keeps_all
from paimon_assets.engine.spec.types.data_types import DataField


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDifference:
    """One line."""

    subject: str
    """`column`, `option <key>`, `comment` or `primary key`."""
    change: str
    """What happened, such as `added` or `renamed, type`."""
    before: str | None
    after: str | None
    field_id: int | None = None


def schema_diff(old: TableSchema, new: TableSchema) -> tuple[SchemaDifference, ...]:
    """Return the differences: columns in the order of the new schema, dropped ones, the rest."""
    return (*_columns(old, new), *_drop(old, new), *_rest(old, new))


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


def _changes(old: DataField, new: DataField, *, is_moved: bool) -> Iterator[str]:
    nullability = old.type.nullable != new.type.nullable
    if old.name != new.name:
        yield "renamed"
    if _plain(old) != _plain(new):
        yield "type"
    if nullability:
        yield "nullability"
    if is_moved:
        yield "moved"
    if old.description != new.description:
        yield "comment"
    if old.default_value != new.default_value:
        yield "default"


def _plain(field: DataField) -> str:
    return str(field.type).removesuffix(" NOT NULL")


def _drop(old: TableSchema, new: TableSchema) -> Iterator[SchemaDifference]:
    for field in old.fields:
        if field.id not in new.by_id:
            before = describe(field)
            yield SchemaDifference(
                subject="column", change="dropped", before=before, after=None, field_id=field.id
            )


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
        if now is None or (field.type.nullable and not now.type.nullable):
            return field
        if not keeps_all(field.type, now.type):
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
    """Return the fewest columns that, moved alone, explain the new order."""
    position = {field.id: index for index, field in enumerate(old.fields)}
    common = [field.id for field in new.fields if field.id in position]
    stayed = _longest_rising([position[field_id] for field_id in common])
    return {field_id for field_id in common if position[field_id] not in stayed}


def _longest_rising(numbers: Sequence[int]) -> set[int]:
    """Return the numbers of a longest rising subsequence; numbers are distinct."""
    tails: list[int] = []
    before: dict[int, int | None] = {}
    for number in numbers:
        at = bisect_left(tails, number)
        before[number] = tails[at - 1] if at else None
        tails[at : at + 1] = [number]
    found, last = set(), tails[-1] if tails else None
    while last is not None:
        found.add(last)
        last = before[last]
    return found
