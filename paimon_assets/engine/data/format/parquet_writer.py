"""Parquet data files written through pyarrow.

Every Paimon reader since 0.9 accepts the writer's settings: integer decimals, data pages of version
1, field ids. TIMESTAMP(7..9) is INT96, because Java 1.4 reads INT64 nanoseconds as microseconds;
see `parquet_times`.

A sample of the first rows decides which columns get a dictionary. Row groups are small, so a column
of unique values would fill a dictionary in each of them: a third more bytes and twice the time,
measured on eight columns of a million rows.
Source: `org.apache.paimon.format.parquet`.
"""

from __future__ import annotations

from functools import cache, cached_property
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import without_nulls_below
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy
from paimon_assets.engine.data.format import base
from paimon_assets.engine.data.format.parquet_times import TwoKinds, has_unit
from paimon_assets.engine.spec.options import all_options as opt

_SAMPLE_ROWS = 16_384
_REPEATED = 2
"""A value must occur this often in the sample, on average."""
_FEW_ROWS = 2048
_FEW_REPEATED = 1.05
"""Of `_FEW_ROWS` of the sample: where values of the sample occur twice, 1.07 is to be expected."""
_MAX_LONG_DIGITS = 18
"""Decimals of so many digits are stored as integers, longer ones as bytes."""


def dictionary_columns(rows: pa.Table) -> list[str]:
    """Return the names of flat columns whose values repeat.

    Decimals of more than 18 digits get no dictionary: Java 1.4 filters by it, and finds no value
    that equals a literal (of 40 rows, `v = 1` found none).

    Cost:
        About 1 ms for ten columns, up to 10 ms if their values repeat a little.
    """
    count = rows.num_rows
    sample = np.linspace(0, max(0, count - 1), min(count, _SAMPLE_ROWS), dtype=np.int64)
    few = None if count < _SAMPLE_ROWS else from_numpy(sample[_few_positions()])
    names = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        kind: Any = column.type
        is_long = pat.is_decimal(kind) and kind.precision > _MAX_LONG_DIGITS
        if pat.is_nested(kind) or pat.is_boolean(kind) or is_long:
            continue
        if few is not None and len(column.take(few).unique()) * _FEW_REPEATED > _FEW_ROWS:
            continue
        values: Any = column if few is None else column.take(from_numpy(sample))
        if len(values.unique()) * _REPEATED <= len(values):
            names.append(name)
    return names


@cache
def _few_positions() -> Any:
    random = Random(0)  # noqa: S311 - the same in all processes
    return np.array(random.sample(range(_SAMPLE_ROWS), _FEW_ROWS))


ROW_GROUP_ROWS = 65_536
"""Largest row group that is written: a lookup decodes few rows, and the encodings still work."""
_SMALL_GROUP_ROWS = ROW_GROUP_ROWS // 2
_SMALL_GROUPS = 16
"""A file begins with so many small groups at most: a key range needs few rows of each run."""


class ParquetWriter(base.FormatWriter):
    def __init__(self, file: base.FileToWrite) -> None:
        self._sink = file.file_io.open_output(file.path)
        self._schema, options = file.schema, file.options
        fine, coarse = (
            any(has_unit(field.type, nanoseconds=each) for field in file.schema)
            for each in (True, False)
        )
        self._two_kinds = TwoKinds(self._sink, file.schema) if fine and coarse else None
        level = options.get(opt.FILE_COMPRESSION_ZSTD_LEVEL)
        self._options: dict[str, Any] = {
            "compression": file.codec,
            "compression_level": level if file.codec == "zstd" else None,
            "data_page_size": options.get(opt.PARQUET_PAGE_SIZE),
            "store_decimal_as_integer": True,
            "data_page_version": "1.0",
            "write_page_checksum": True,
            "write_page_index": True,  # by which Spark and Java skip pages
            "version": "2.6",
            "use_deprecated_int96_timestamps": fine,
            "store_schema": self._two_kinds is None,
            # pyarrow's statistics leave out NaN, which is above all numbers in filters of Java and
            # Spark: these would skip it. Those of whole files, in manifests, take it into account.
            "write_statistics": [
                each.name
                for each in file.schema
                if not pat.is_nested(each.type) and not pat.is_floating(each.type)
            ]
            or False,
        }
        self._dictionaries = options.get(opt.PARQUET_ENABLE_DICTIONARY)
        self._group_bytes = options.get(opt.FILE_BLOCK_SIZE) or options.get(opt.PARQUET_BLOCK_SIZE)
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._footers: list[Any] = []
        self.bounded = {
            name
            for name, kind in zip(file.schema.names, file.schema.types, strict=True)
            if "." not in name and (pat.is_string(kind) or pat.is_decimal(kind))
        }

    def _open_writer(self, first_rows: pa.Table) -> pq.ParquetWriter:
        """Open the encoder; the first rows decide which columns get dictionaries."""
        if self._writer is None:
            dictionaries = dictionary_columns(first_rows) if self._dictionaries else False
            sink = self._two_kinds
            self._writer = pq.ParquetWriter(
                self._sink if sink is None else sink,  # type: ignore[arg-type]  # it is written to
                self._schema if sink is None else sink.stored_schema,
                **self._options,
                use_dictionary=dictionaries,  # type: ignore[arg-type]  # a list
                metadata_collector=self._footers,
            )
        return self._writer

    def write(self, rows: pa.Table) -> None:
        """Append rows in row groups of at most `ROW_GROUP_ROWS`, half of that while rows are few.

        Every call ends a row group, so write many rows at a time.
        """
        if rows.num_rows:
            self._rows += rows.num_rows
            fitting = self._group_bytes * rows.num_rows // max(1, rows.nbytes)
            is_small = self._rows <= _SMALL_GROUPS * _SMALL_GROUP_ROWS
            rows_of_group = max(1, min(_SMALL_GROUP_ROWS if is_small else ROW_GROUP_ROWS, fitting))
            whole = without_nulls_below(rows)
            stored = whole if self._two_kinds is None else self._two_kinds.rows(whole)
            self._open_writer(rows).write_table(stored, row_group_size=rows_of_group)

    def close(self) -> int:
        writer = self._writer or self._open_writer(self._schema.empty_table())
        if self._two_kinds is None:
            writer.close()
        else:
            self._two_kinds.end(writer)
        return super().close()

    def bounds(self, name: str) -> tuple[list[Any], int]:
        (footer,), ends, other_rows = self._footers, list[Any](), 0
        leaf = self._leaves[name]
        for group in range(footer.num_row_groups):
            chunk = footer.row_group(group).column(leaf)
            found = chunk.statistics
            try:
                ends += [found.min, found.max] if found.has_min_max else []
                other_rows += 0 if found.has_min_max else chunk.num_values - found.null_count
            except UnicodeDecodeError:  # of bytes that became a STRING
                other_rows += chunk.num_values
        return ends, other_rows

    @cached_property
    def _leaves(self) -> dict[str, int]:
        schema = self._footers[0].schema
        return {schema.column(leaf).path: leaf for leaf in range(len(schema))}

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False  # or it would write the footer when collected
        super().abort()
