"""JSON lines through pyarrow: an object a line, columns by name; a member that is absent is null.

Values are parsed as the table declares its columns.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.json as pa_json

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.format.base import FileFormat, FileToRead
from paimon_assets.engine.data.format.text import BLOCK_BYTES, CountedRows, open_text_stream


class JsonReader(CountedRows):
    """One open file of JSON lines."""

    title = "JSON lines"

    def _columns(self, file: FileToRead) -> pa.Schema:
        self._declared = {
            field.name: pa.field(field.name, to_arrow_type(field.type))
            for field in file.declared or ()
        }
        return self._first_block() if self._source.size() else pa.schema([])

    def _first_block(self) -> pa.Schema:
        """Return members of the first objects, as the table declares them; then absent ones."""
        with open_text_stream(self._file_io, self._path) as stream:
            found = _open(stream, None).schema
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
        schema = pa.schema([self.schema.field(name) for name in wanted])
        with open_text_stream(self._file_io, self._path) as stream:
            yield from _open(stream, schema)


def _open(stream: Any, schema: pa.Schema | None) -> Any:
    behavior: Literal["infer", "ignore"] = "infer" if schema is None else "ignore"
    return pa_json.open_json(
        stream,
        read_options=pa_json.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=pa_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=behavior
        ),
    )


FORMAT = FileFormat(name="json", reader=JsonReader, is_text=True)
