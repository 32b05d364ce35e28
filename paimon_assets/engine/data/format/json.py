"""JSON lines through pyarrow: an object a line, columns by name; a member that is absent is null.

Values are parsed as the table declares its columns. With `multiLine`, objects may go over several
lines, and stand in one array.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.json as pa_json

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.format.base import FileFormat, FileToRead
from paimon_assets.engine.data.format.text import CountedRows, declared_fields
from paimon_assets.engine.data.format.text_streams import (
    BLOCK_BYTES,
    open_text_stream,
    without_array,
)
from paimon_assets.engine.data.format.text_times import parsed_times, read_type


class JsonReader(CountedRows):
    """One open file of JSON lines."""

    title = "JSON lines"

    def _columns(self, file: FileToRead) -> pa.Schema:
        refuses = file.declared is not None and file.declared.refuses_others
        self._others: Literal["ignore", "error"] = "error" if refuses else "ignore"
        self._declared = {
            field.name: pa.field(field.name, to_arrow_type(field.type))
            for field in declared_fields(file)
        }
        return self._first_block() if self._source.size() else pa.schema([])

    def _first_block(self) -> pa.Schema:
        """Return members of the first objects, as the table declares them; then absent ones."""
        with self._stream() as stream:
            found = self._open(stream, None).schema
        fields = [self._declared.get(field.name, field) for field in found]
        if any(field.name in self._declared for field in found):
            folded = {field.name.lower() for field in found}
            absent = (name for name in self._declared if name.lower() not in folded)
            fields += [self._declared[name] for name in absent]
        return pa.schema(fields)

    def _decoded(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        if not self._source.size():
            return
        wanted = list(columns) or self.schema.names[:1]
        types = {name: self.schema.field(name).type for name in wanted}
        schema = pa.schema({name: read_type(kind, self._text) for name, kind in types.items()})
        with self._stream() as stream:
            for batch in self._open(stream, schema):
                yield parsed_times(batch, self.schema, self._text)

    def _stream(self) -> Any:
        stream = open_text_stream(self._file_io, self._path, self._text)
        return without_array(stream) if self._text.multi_line else stream

    def _open(self, stream: Any, schema: pa.Schema | None) -> Any:
        behavior: Literal["infer", "ignore", "error"] = "infer" if schema is None else self._others
        return pa_json.open_json(
            stream,
            read_options=pa_json.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=pa_json.ParseOptions(
                explicit_schema=schema,
                newlines_in_values=bool(self._text.multi_line),
                unexpected_field_behavior=behavior,
            ),
        )


FORMAT = FileFormat(name="json", reader=JsonReader, is_text=True)
