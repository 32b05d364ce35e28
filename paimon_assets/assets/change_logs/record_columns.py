"""The columns of records as the table has them, before anything else sees a value.

omitted    left out          hashed      SHA-256 instead of the value
renamed    another name      computed    from another column; metadata: from the record
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.assets.change_logs.change_images import SOURCE
from paimon_assets.assets.change_logs.change_log import ChangeLog
from paimon_assets.engine.codec.arrow.arrow_types import from_arrow_type
from paimon_assets.engine.codec.arrow.numpy_columns import to_numpy
from paimon_assets.engine.data.cdc.change_batch import ORIGIN_SCHEMA, ChangeBatch
from paimon_assets.engine.data.cdc.computed import computation_of
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.types.data_types import DataField, RowKind, string


def as_stored(batch: ChangeBatch, log: ChangeLog, keys: Sequence[str]) -> ChangeBatch:
    """Return a batch with the columns that the table has.

    Raises:
        InvalidInputError: Kind `cdc-computed`: a key is computed of values that did not arrive.
    """
    fields = _fields(batch.fields, log)
    rows = batch.rows.select(
        [field.name for field in batch.fields if field.name not in log.omitted]
    )
    rows = rows.rename_columns([field.name for field in fields])
    missing = {
        log.renamed.get(name, name): flags
        for name, flags in batch.missing.items()
        if name not in log.omitted
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
            rows = rows.set_column(number, name, _hashes(rows[name], log.salt_text()))
    for name, what in log.metadata.items():
        rows = rows.append_column(name, _metadata(batch, what))
    kinds = batch.kinds
    if computed := [name for name in keys if name in log.computed]:
        kinds = _with_computed_keys(batch, rows, computed)
    return replace(
        batch, rows=rows, fields=fields, missing=missing, events=tuple(events), kinds=kinds
    )


def _fields(fields: Sequence[DataField], log: ChangeLog) -> tuple[DataField, ...]:
    taken = []
    for field in fields:
        if field.name not in log.omitted:
            name = log.renamed.get(field.name, field.name)
            kind = string() if name in log.hashed else field.type
            taken.append(replace(field, name=name, type=kind))
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


def _metadata(batch: ChangeBatch, what: str) -> Any:
    if what in SOURCE:
        return pa.repeat(pa.scalar(getattr(batch, what), pa.string()), len(batch))
    if what in ORIGIN_SCHEMA.names:
        return batch.origin[what]
    if what in batch.metadata.column_names:
        return batch.metadata[what]
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
            details={"table": batch.name, "file": str(batch.origin["file"][row])},
        )
    for name in names:
        values = rows[name].to_numpy(zero_copy_only=False)
        moved = after[values[after] != values[after - 1]]
        kinds[moved], kinds[moved - 1] = RowKind.INSERT, RowKind.DELETE
    return kinds
