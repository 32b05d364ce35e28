"""CSV files through pyarrow: the first line names the columns, an empty field is null.

Empty lines are no rows, as for Spark, not even where there is one column.
Values are parsed as the table declares its columns; columns it does not declare are texts.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.format.base import FileFormat, FileToRead
from paimon_assets.engine.data.format.text import BLOCK_BYTES, CountedRows, open_text_stream


class CsvReader(CountedRows):
    """One open CSV file."""

    title = "CSV"

    def _columns(self, file: FileToRead) -> pa.Schema:
        types = {field.name: to_arrow_type(field.type) for field in file.declared or ()}
        with open_text_stream(file.file_io, file.path) as stream:
            names = _open(stream, {}, None).schema.names
        return pa.schema([(name, types.get(name, pa.string())) for name in names])

    def _decoded(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        # Without a column pyarrow would decode all of them.
        wanted = list(columns) or self.schema.names[:1]
        types = {name: self.schema.field(name).type for name in wanted}
        with open_text_stream(self._file_io, self._path) as stream:
            yield from _open(stream, types, wanted)


def _open(
    stream: Any, types: dict[str, pa.DataType], columns: list[str] | None
) -> pa_csv.CSVStreamingReader:
    return pa_csv.open_csv(
        stream,
        read_options=pa_csv.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=types,
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


FORMAT = FileFormat(name="csv", reader=CsvReader, is_text=True)
