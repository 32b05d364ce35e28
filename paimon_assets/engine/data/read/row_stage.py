"""RowStage: the last step of every read, from columns of files to columns of the result.

columns of the files ─▶ + partition columns ─▶ predicate ─▶ projection = context.columns

The column `_VALUE_KIND`, if there is one, holds the kinds of rows; without it every row is +I.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema, to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.codec.rows.binary_row import deserialize_row
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.data.arrow_predicate import passing_rows
from paimon_assets.engine.spec.predicate.predicate import Predicate, fields_of
from paimon_assets.engine.spec.schema.schema import ROW_KIND, VALUE_KIND
from paimon_assets.engine.spec.types.data_types import SHORT_TEXTS, DataField, RowKind

_OFFSETS: Any = np.arange(0, 2 * len(RowKind) + 1, 2, dtype=np.int32)
_TEXTS: pa.Array[Any] = pa.Array.from_buffers(
    pa.string(),
    len(RowKind),
    [
        None,
        pa.py_buffer(_OFFSETS),
        pa.py_buffer("".join(SHORT_TEXTS[kind] for kind in sorted(RowKind)).encode()),
    ],
)
"""The texts of kinds, two characters each, by the number of the kind; without loading pandas."""


@dataclass(frozen=True, kw_only=True)
class RowStage:
    """Adds a split's partition columns, applies the whole predicate, projects."""

    context: ReadContext
    partition: bytes
    """Serialized BinaryRow of the split's partition."""

    @cached_property
    def file_fields(self) -> tuple[DataField, ...]:
        """Columns that must come from the files: projected or filtered, not partition columns.

        At least one, because an Arrow batch without columns does not keep its number of rows.
        """
        schema = self.context.schema
        names = {*self.context.columns, *fields_of(self.context.predicate)}
        stored = [field for field in schema.fields if field.name not in schema.partition_keys]
        return tuple(field for field in stored if field.name in names) or tuple(stored[:1])

    @cached_property
    def constants(self) -> Mapping[str, Any]:
        """Partition column → its value in this split, as an Arrow scalar."""
        fields = self.context.schema.partition_fields
        if not fields:
            return {}
        values = deserialize_row(self.partition, [field.type for field in fields])
        return {
            field.name: to_scalar(value, field.type).cast(to_arrow_type(field.type))
            for field, value in zip(fields, values, strict=True)
        }

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the result."""
        return to_arrow_schema(self.context.fields)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Turn a batch of (at least) `file_fields` into the rows and columns of the result."""
        mask = self._mask(batch, self.context.predicate)
        if not self.context.columns:
            return (batch if mask is None else batch.filter(mask)).select([])
        columns = [self._column(batch, name) for name in self.context.columns]
        result = pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)
        return result if mask is None else result.filter(mask)

    def filter(self, batch: pa.RecordBatch, predicate: Predicate) -> pa.RecordBatch:
        """Keep the rows for which a part of the predicate is true."""
        mask = self._mask(batch, predicate)
        return batch if mask is None else batch.filter(mask)

    def _mask(self, batch: pa.RecordBatch, predicate: Predicate | None) -> Any:
        if predicate is None:
            return None
        mask = passing_rows(
            predicate, lambda name: self._column(batch, name), self.context.schema.by_name
        )
        return None if mask.true_count == len(mask) else mask

    def _column(self, batch: pa.RecordBatch, name: str) -> Any:
        if name == ROW_KIND.name and self.context.keeps_kinds:
            if VALUE_KIND.name not in batch.schema.names:
                return pa.repeat(_TEXTS[RowKind.INSERT], batch.num_rows)
            return _TEXTS.take(batch.column(VALUE_KIND.name))
        constant = self.constants.get(name)
        return batch.column(name) if constant is None else pa.repeat(constant, batch.num_rows)
