"""JSON lines through pyarrow: an object a line, columns by name; a missing member is null.

Values are parsed as the table declares its columns, as in Spark: bytes are base64, and if a text is
declared, a number or an object is read as its source text. With `multiLine`, objects may have
several lines, and may be in one array; then maps are not read, and texts must be texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.data.format.base import FileFormat, FileToRead
from paimon_assets.engine.data.format.text import CountedRows, declared_fields
from paimon_assets.engine.data.format.text_streams import (
    BLOCK_BYTES,
    open_text_stream,
    with_plain_members,
    without_array,
)
from paimon_assets.engine.data.format.text_values import parse_columns, read_type


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
        try:
            with self._stream() as stream:
                members = self._open(stream, None).schema
        except pa.ArrowInvalid:  # values of several types under one name
            if not self._declared:
                raise
            texts = (field.with_type(pa.string()) for field in self._declared.values())
            with self._stream(texts) as stream:
                members = self._open(stream, None).schema
        fields = [self._declared.get(member.name, member) for member in members]
        if any(member.name in self._declared for member in members):
            names = {member.name.lower() for member in members}
            fields += [field for name, field in self._declared.items() if name.lower() not in names]
        return pa.schema(fields)

    def _decode(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        if not self._source.size():
            return
        fields = [self.schema.field(name) for name in list(columns) or self.schema.names[:1]]
        rows = 0
        try:
            for batch in self._parse(fields, rewrites=_holds(fields, pat.is_map)):
                yield batch
                rows += batch.num_rows
        except pa.ArrowInvalid:
            if not _holds(fields, pat.is_string):
                raise
        else:
            return
        # Perhaps a number or an object where a text is declared: Spark reads its source text.
        for batch in self._parse(fields, rewrites=True):
            yield batch.slice(min(rows, batch.num_rows))
            rows -= min(rows, batch.num_rows)

    def _parse(
        self, fields: Sequence[pa.Field[Any]], *, rewrites: bool
    ) -> Iterator[pa.RecordBatch]:
        schema = pa.schema(
            [field.with_type(read_type(field.type, self._text, is_json=True)) for field in fields]
        )
        zone = self._text.time_zone or "UTC"
        with self._stream(fields if rewrites else ()) as stream:
            for batch in self._open(stream, schema):
                yield parse_columns(batch, self.schema, self._text, zone=zone)

    def _stream(self, fields: Iterable[pa.Field[Any]] = ()) -> Any:
        """Open the file; members that are texts or maps are rewritten for the parser."""
        stream = open_text_stream(self._file_io, self._path, self._text)
        if self._text.multi_line:
            return without_array(stream)
        texts = [field.name for field in fields if pat.is_string(field.type)]
        maps = [field.name for field in fields if pat.is_map(field.type)]
        return with_plain_members(stream, texts, maps) if texts or maps else stream

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


def _holds(fields: Iterable[pa.Field[Any]], is_kind: Callable[[pa.DataType], bool]) -> bool:
    return any(is_kind(field.type) for field in fields)


FORMAT = FileFormat(name="json", reader=JsonReader, is_text=True)
