"""CSV files through pyarrow: the first line names the columns, an empty field is null.

Empty lines are not rows, as in Spark, not even in a file of one column. Values are parsed as the
table declares its columns; other columns are texts. `TextOptions` describes files of other forms.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.format.base import FileFormat, FileToRead
from paimon_assets.engine.data.format.text import CountedRows, declared_fields
from paimon_assets.engine.data.format.text_streams import (
    BLOCK_BYTES,
    check_width,
    open_text_stream,
    without_comments,
)
from paimon_assets.engine.data.format.text_values import parse_columns, read_type


class CsvReader(CountedRows):
    """One open CSV file."""

    title = "CSV"

    def _columns(self, file: FileToRead) -> pa.Schema:
        types = {field.name: to_arrow_type(field.type) for field in declared_fields(file)}
        names = self._text.names
        if names is None:
            with self._stream() as stream:
                check_width(stream, self._text.delimiter)
            with self._stream() as stream:
                names = tuple(self._open(stream, {}, None).schema.names)
        return pa.schema([(name, types.get(name, pa.string())) for name in names])

    def _decode(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        if not self._source.size():
            return
        # Without a column pyarrow would decode all of them.
        names = list(columns) or self.schema.names[:1]
        types = {name: read_type(self.schema.field(name).type, self._text) for name in names}
        with self._stream() as stream:
            for batch in self._open(stream, types, names):
                yield parse_columns(batch, self.schema, self._text, zone=self._text.time_zone)

    def _stream(self) -> Any:
        stream = open_text_stream(self._file_io, self._path, self._text)
        return without_comments(stream, self._text) if self._text.comment else stream

    def _open(
        self, stream: Any, types: dict[str, pa.DataType], columns: list[str] | None
    ) -> pa_csv.CSVStreamingReader:
        text = self._text
        return pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(
                block_size=BLOCK_BYTES,
                column_names=None if text.names is None else list(text.names),
                skip_rows=int(text.names is not None and text.has_header),
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=text.delimiter,
                quote_char=text.quote or False,
                escape_char=text.escape or False,
                newlines_in_values=text.multi_line is not False,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                null_values=sorted({"", text.null_text}),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                decimal_point=text.decimal_point,
            ),
        )


FORMAT = FileFormat(name="csv", reader=CsvReader, is_text=True)
