"""The columns of records as the table has them, before anything else sees a value.

omitted    left out          hashed      SHA-256 instead of the value
renamed    another name      computed    from another column; metadata: from the record
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import field
from msgspec.structs import replace

from paimon_assets.cdc.fold.change_images import MISSING, OP, POSITION, SOURCE, ReadChanges
from paimon_assets.cdc.records.change_batch import (
    ORIGIN_SCHEMA,
    AbsentValue,
    CdcOptions,
    ChangeBatch,
    SourceName,
    SourceTable,
)
from paimon_assets.cdc.records.computed import computation_of
from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type, to_arrow_schema
from paimon_assets.engine.codec.arrow.numpy_columns import to_numpy
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField, RowKind, string
from paimon_assets.engine.spec.values import Value


class LogRows(Value, hidden=("salt",)):
    """The way the records of a log become rows of one table."""

    source_table: str = ""
    """The table of the source, as `orders`, `shop.orders` or `shop.public.orders`; records of
    other tables are left out. By default the folder has the records of one table only."""
    records: CdcOptions = field(default_factory=CdcOptions)
    """The way records are written: modes of the connector, mappings of types."""
    omitted: Sequence[str] = ()
    """Columns of the source that are not stored."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Column of the source → its name in the table. The schema policy `sync` renames a column that
    the table has; an empty name means that the source dropped the column."""
    hashed: Sequence[str] = ()
    """Columns of the table that hold SHA-256 of the source's value, as hexadecimal text."""
    salt: str = ""
    """A secret before each hashed value, so that values cannot be tried."""
    computed: Mapping[str, str] = field(default_factory=dict)
    """Column of the table → call of `year`, `month`, `day`, `hour`, `minute`, `second`,
    `date_format`, `substring` or `truncate`, such as `date_format(made, yyyy-MM)`."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Column of the table → its source in the last change: `database`, `schema`, `table`,
    `op_time`, `log`, `file`, `line`, or further metadata of the format."""
    history: bool = False
    """Whether the table is the log itself: an append table of all images, with `_op`, `_position`
    and, of values that did not arrive, the names of their columns in `_missing`."""
    soft_deletes: str = ""
    """A BOOLEAN column of the table that is true for deleted rows, which stay."""

    @property
    def own_names(self) -> Mapping[str, str]:
        """Column of the table → its name in the source, of those that are renamed."""
        return {new: old for old, new in self.renamed.items() if new}

    def known_of(self, schema: TableSchema, plain: frozenset[str] = frozenset()) -> SourceTable:
        """Return the types and keys of the source by a stored table; see `SourceTable.plain`."""
        own, made = self.own_names, {*self.computed, *self.metadata}
        return SourceTable(
            keys=tuple(own.get(key, key) for key in schema.primary_keys if key not in made),
            columns={own.get(each.name, each.name): each.type for each in schema.fields},
            plain=plain | {own[name] for name in plain if name in own},
            omitted=frozenset(self.omitted),
            checks_times=schema.typed_options.get(opt.WRITE_CHECK_TIMES),
        )

    def takes(self, name: SourceName) -> bool:
        """Whether the records of a source table are taken."""
        wanted = self.source_table.split(".")
        parts = [part for part in name if part]
        return not self.source_table or parts[-len(wanted) :] == wanted

    def options(
        self,
        schema: TableSchema,
        on_rejected: Callable[[pa.Table], None] | None,
        plain: frozenset[str],
    ) -> CdcOptions:
        """Return how records are read for a table."""
        known = self.known_of(schema, plain)
        needs_before = self.history or {*self.computed} & {*schema.primary_keys}
        return replace(
            self.records,
            keys=() if needs_before else known.keys,
            table_of=lambda name: known if self.takes(name) else None,
            metadata=frozenset(self.metadata.values()),
            on_rejected=on_rejected,
        )

    def changes(
        self,
        batches: Sequence[ChangeBatch],
        schema: TableSchema,
        gone: frozenset[str] = frozenset(),
        columns: frozenset[str] = frozenset(),
    ) -> ReadChanges:
        """Return changes as stored, of a table whose source has `columns`, and no more `gone`."""
        expected: Mapping[str, pa.DataType] = {}
        if self.records.absent is not AbsentValue.NULL:
            own = {OP, POSITION, MISSING, self.soft_deletes, *self.metadata, *gone, *self.omitted}
            own |= {*schema.primary_keys}
            stored = to_arrow_schema(schema.fields)
            expected = {each.name: each.type for each in stored if each.name not in own}
        metadata = frozenset(self.metadata)
        return ReadChanges(
            batches=batches, metadata=metadata, gone=gone, expected=expected, columns=columns
        )


def as_stored(batch: ChangeBatch, log: LogRows, keys: Sequence[str]) -> ChangeBatch:
    """Return a batch with the columns that the table has.

    Raises:
        InvalidInputError: Kind `cdc-computed`: a key is computed of values that did not arrive.
    """
    names = _names(batch.fields, log)
    fields = _fields(batch.fields, log)
    rows = batch.rows.select(
        [column.name for column in batch.fields if column.name not in log.omitted]
    )
    rows = rows.rename_columns([column.name for column in fields])
    missing = {
        names[name]: flags for name, flags in batch.missing.items() if name not in log.omitted
    }
    events = [
        replace(event, fields=event.fields and _fields(event.fields, log)) for event in batch.events
    ]
    for name, text in log.computed.items():
        of = computation_of(text)
        if of.source in rows.column_names:
            column = of.compute(rows[of.source].combine_chunks())
            rows = rows.append_column(name, column)
            fields = (*fields, DataField(id=0, name=name, type=from_arrow_type(column.type)))
            if of.source in missing:
                missing[name] = missing[of.source]
    for name in log.hashed:
        if name in rows.column_names:
            number = rows.column_names.index(name)
            rows = rows.set_column(number, name, _hashes(rows[name], log.salt))
    for name, source in log.metadata.items():
        rows = rows.append_column(name, _metadata(batch, source))
    kinds = batch.kinds
    if computed := [name for name in keys if name in log.computed]:
        kinds = _with_computed_keys(batch, rows, computed)
    return replace(
        batch, rows=rows, fields=fields, missing=missing, events=tuple(events), kinds=kinds,
        defaults=frozenset(names[name] for name in batch.defaults),
        texts=frozenset(names[name] for name in batch.texts).difference(log.hashed),
    )  # fmt: skip


def _names(fields: Sequence[DataField], log: LogRows) -> Mapping[str, str]:
    """Return the names in the table; an old name beside its new one is another column."""
    names = {column.name for column in fields}
    new = {name: log.renamed.get(name) or name for name in names}
    return {name: name if to in names else to for name, to in new.items()}


def _fields(fields: Sequence[DataField], log: LogRows) -> tuple[DataField, ...]:
    taken, names = [], _names(fields, log)
    for column in fields:
        if column.name not in log.omitted:
            name = names[column.name]
            kind = string() if name in log.hashed else column.type
            taken.append(replace(column, name=name, type=kind))
    return tuple(taken)


def _hashes(column: Any, salt: str) -> Any:
    """Return SHA-256 of texts as hexadecimal texts; each distinct value is hashed once."""
    encoded = column.combine_chunks().cast(pa.string()).dictionary_encode()
    begun = hashlib.sha256(salt.encode())
    hashes = []
    for text in encoded.dictionary.to_pylist():
        hashed = begun.copy()
        hashed.update(text.encode())
        hashes.append(hashed.hexdigest())
    return pa.array(hashes, pa.string()).take(encoded.indices)


def _metadata(batch: ChangeBatch, source: str) -> Any:
    if source in SOURCE:
        return pa.repeat(pa.scalar(getattr(batch, source), pa.string()), len(batch))
    if source in ORIGIN_SCHEMA.names:
        return batch.origin[source]
    if source in batch.metadata.column_names:
        return batch.metadata[source]
    return pa.nulls(len(batch), pa.string())


def _with_computed_keys(batch: ChangeBatch, rows: pa.Table, names: Sequence[str]) -> Any:
    """Make an update that changed a computed key a delete and an insert.

    The rows before must be there: else a row would stay where it was, under its old key.
    """
    kinds = batch.kinds.copy()
    lines = batch.origin["line"].to_numpy()
    after = np.flatnonzero(kinds == RowKind.UPDATE_AFTER)
    follows = (after > 0) & (kinds[after - 1] == RowKind.UPDATE_BEFORE)
    follows &= lines[after] == lines[after - 1]
    bad = set(after[~follows].tolist())
    for name in names:
        column = rows[name].combine_chunks() if name in rows.column_names else None
        known = np.zeros(len(kinds), dtype=bool) if column is None else to_numpy(column.is_valid())
        bad |= set(np.flatnonzero(~known).tolist())
    if bad:
        row = min(bad)
        raise InvalidInputError(
            f"The key column {', '.join(names)} is computed of values that did not arrive: "
            f"'{batch.origin['file'][row]}', line {lines[row]}. Let the source send whole rows, "
            "also as they were before (Postgres: REPLICA IDENTITY FULL).",
            kind="cdc-computed",
            table=batch.name,
            file=str(batch.origin["file"][row]),
        )
    for name in names:
        values = rows[name].to_numpy(zero_copy_only=False)
        moved = after[values[after] != values[after - 1]]
        kinds[moved], kinds[moved - 1] = RowKind.INSERT, RowKind.DELETE
    return kinds
