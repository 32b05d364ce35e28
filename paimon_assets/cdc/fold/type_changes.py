"""Columns that the source dropped, or gave another type, while its records were written.

    value of a record ─▶ each later type of the source, as its rows were cast ─▶ the table's type
    value from before the column was dropped ─▶ null

A value that a type does not hold was in no row any more when the source took that type: it is null
here, and marked. A mark that is left once the changes are folded is of a value that would be lost.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from paimon_assets.cdc.fold.change_images import UNFIT
from paimon_assets.cdc.fold.log_positions import SeenSchema, in_order, types_of
from paimon_assets.cdc.fold.nested_texts import json_texts
from paimon_assets.cdc.records.change_batch import ChangeBatch
from paimon_assets.cdc.records.values import BYTES, nulls
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, from_numpy, to_numpy
from paimon_assets.engine.data.cast_losses import losses_of
from paimon_assets.engine.data.write.input_check import is_lossless_family
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_fit import keeps_all
from paimon_assets.engine.spec.types.cast_rules import same_type, supports_cast
from paimon_assets.engine.spec.types.data_types import AtomicType, DataField, DataType, string
from paimon_assets.engine.spec.words import counted


def drops_of(
    ordered: Sequence[tuple[str, SeenSchema]], before: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Return the columns that the source dropped, if only for a while, and a position then.

    Args:
        ordered: Schemas; see `in_order`.
        before: Columns that the source had before these.
    """
    dropped, columns = dict[str, str](), before
    for position, each in ordered:
        if each.is_whole:
            dropped.update(dict.fromkeys(columns - each.names, position))
            columns = each.names
    return dropped


def as_table_has(
    batches: Sequence[ChangeBatch],
    positions: Any,
    seen: Sequence[SeenSchema],
    schema: TableSchema,
    dropped: Mapping[str, str],
    mixed: frozenset[str],
) -> list[ChangeBatch]:
    """Return changes with the values that the rows of the source have now.

    Args:
        batches: The changes, with the table's columns.
        positions: Of the changes, as texts.
        seen: Schemas of the source, as these changes have them.
        schema: The table's, which has followed the source.
        dropped: Column → position before these changes at which the source did not have it.
        mixed: Columns that are, or were, texts and something else.
    """
    dropped = {**dropped, **drops_of(in_order(seen))}
    types: dict[str, list[tuple[str, DataType]]] = {}
    for position, name, kind in types_of(in_order(seen)):
        of_column = types.setdefault(name, [])
        if not of_column or not same_type(of_column[-1][1], kind):
            of_column.append((position, kind))
    converted, start = [], 0
    for read in batches:
        batch, places = read, positions[start : start + len(read)]
        start += len(read)
        for column in read.fields if len(read) else ():
            name, since = column.name, types.get(column.name, [])
            if name in dropped and name in batch.rows.column_names:
                batch = _without(batch, name, _before(places, dropped[name]))
            if not since or name in batch.texts:
                continue
            stored = schema.by_name.get(name)
            final = since[-1][1] if stored is None else stored.type
            is_other = not same_type(column.type, final) and holds_all(final, column.type)
            if is_other or name in mixed or len(since) > 1:
                batch = _convert(batch, name, column.type, since, final, places)
            elif stored is not None:
                _check_fits_into(column, stored, batch)
        converted.append(batch)
    return converted


def _check_fits_into(column: DataField, stored: DataField, batch: ChangeBatch) -> None:
    kind = batch.rows.schema.field(column.name).type  # hashed ones are texts
    if not is_lossless_family(kind, to_arrow_type(stored.type)):
        message = (
            f"Column '{column.name}' is {column.type} in the records of '{batch.name}' "
            f"('{batch.place}'), and {stored.type} in the table. Nothing was committed. Make a "
            f"table that declares it as {column.type}."
        )
        raise InvalidInputError(message, kind="cdc-types", table=batch.name, column=column.name)


def is_nested(kind: DataType) -> bool:
    """Whether values of a type have parts."""
    return not isinstance(kind, AtomicType)


def holds_any(kind: DataType) -> bool:
    """Whether a type is STRING or BYTES, which hold the JSON of nested values."""
    return same_type(kind, string()) or same_type(kind, BYTES)


def holds_all(kind: DataType, other: DataType) -> bool:
    """Whether a column of a type holds all values of another one."""
    holds = is_nested(other) and holds_any(kind)
    return holds or keeps_all(other, kind) or same_type(kind, BYTES)


def _before(places: Any, position: str) -> Flags:
    return to_numpy(pc.less(places, pa.scalar(position)))


def _without(batch: ChangeBatch, name: str, gone: Flags) -> ChangeBatch:
    """Return a batch with nulls in a column for some rows."""
    if not gone.any():
        return batch
    missing = {**batch.missing}
    if name in missing:
        missing[name] = missing[name] & ~gone
    none = pa.scalar(None, batch.rows.schema.field(name).type)
    values = pc.if_else(from_numpy(gone), none, batch.rows[name])
    return _with_column(replace(batch, missing=missing), name, values)


def _with_column(batch: ChangeBatch, name: str, values: Any) -> ChangeBatch:
    rows = batch.rows
    if name not in rows.column_names:
        return replace(batch, rows=rows.append_column(name, values))
    return replace(batch, rows=rows.set_column(rows.column_names.index(name), name, values))


def _convert(
    batch: ChangeBatch,
    name: str,
    kind: DataType,
    types: Sequence[tuple[str, DataType]],
    final: DataType,
    places: Any,
) -> ChangeBatch:
    """Return a batch whose column has the table's type; `types` are the source's, by position."""
    column = batch.rows[name].combine_chunks()
    eras = np.zeros(len(batch), dtype=np.int64)
    for at, _ in types[1:]:
        eras += ~_before(places, at)
    order, parts, marks = [], [], []
    for era in np.unique(eras).tolist():
        rows = np.flatnonzero(eras == era)
        values = column.take(from_numpy(rows))
        later = [later for _, later in types[era + 1 :]]
        made, unfit = cast_along(values, [kind, *later, final])
        if unfit.any():  # the table's type may hold values that a type of the source does not
            direct, lost = cast_along(values, [kind, final])
            made, unfit = pc.if_else(from_numpy(unfit), direct, made), unfit & lost
        order.append(rows)
        parts.append(made)
        marks.append(unfit)
    back = np.argsort(np.concatenate(order))
    batch = _with_column(batch, name, pa.concat_arrays(parts).take(from_numpy(back)))
    unfit = np.concatenate(marks)[back]
    if not unfit.any():
        return batch
    return _with_column(batch, f"{UNFIT}{name}", pa.array(unfit, mask=~unfit))


def cast_along(values: Any, types: Sequence[DataType]) -> tuple[Any, Flags]:
    """Cast values from each type to the next; return which ones do not come through."""
    unfit = np.zeros(len(values), dtype=np.bool_)
    steps = list(types[:1])
    for kind in types[1:]:  # a type without a cast to bytes has one to texts
        is_far = same_type(kind, BYTES) and not supports_cast(steps[-1], BYTES)
        steps += [string(), kind] if is_far and not is_nested(steps[-1]) else [kind]
    for kind, wanted in pairwise(steps):
        if same_type(kind, wanted):
            continue
        if is_nested(kind) and holds_any(wanted):
            values = json_texts(values).cast(nulls(0, wanted).type)
            continue
        if is_nested(kind) or not supports_cast(kind, wanted):
            unfit |= to_numpy(values.is_valid())
            values = nulls(len(values), wanted)
            continue
        losses = losses_of(values, kind, wanted)
        lost = np.logical_or.reduce([*losses.rows.values(), np.zeros(len(values), np.bool_)])
        unfit |= lost
        values = pc.if_else(from_numpy(lost), pa.scalar(None, losses.result.type), losses.result)
    return values, unfit


def fitting(rows: pa.Table, table: str) -> pa.Table:
    """Return folded rows without marks.

    Raises:
        InvalidInputError: Kind `cdc-types`: the table's type does not hold a value.
    """
    for mark in [name for name in rows.column_names if name.startswith(UNFIT)]:
        count = rows[mark].null_count
        if count < len(rows):
            name = mark.removeprefix(UNFIT)
            message = (
                f"Table '{table}': {counted(len(rows) - count, 'value')} of column '{name}' beyond "
                f"its type {rows.schema.field(name).type}; the source has other types. Nothing was "
                "committed. Say ChangeLog(on_narrowed='keep') to keep a type that holds all values "
                "(schema_policy='sync')."
            )
            raise InvalidInputError(message, kind="cdc-types", table=table, column=name)
        rows = rows.drop_columns([mark])
    return rows
