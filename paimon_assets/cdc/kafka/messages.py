"""Records of topics → lines of JSON for readers of change logs, or rows of a declared schema.

Every record is one line, so that a line's number finds the record.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute
import pyarrow.json as pa_json
from msgspec.structs import replace

from paimon_assets.cdc.kafka.fetching import KEY, OFFSET, TIMESTAMP, VALUE, Fetched
from paimon_assets.cdc.kafka.topics import OffsetRange
from paimon_assets.engine.codec.arrow.numpy_columns import parts_of_texts
from paimon_assets.engine.codec.json.record_check import BLOCK_BYTES, check_records
from paimon_assets.engine.codec.row_files import as_file
from paimon_assets.engine.data.format import text_lines
from paimon_assets.engine.data.format.external_files import (
    ALL_TYPES,
    FileKind,
    open_fitted,
    types_of_json,
)
from paimon_assets.engine.data.format.text import parse_columns, read_type
from paimon_assets.engine.data.format.text_streams import has_object_a_line
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.segments.text_options import TextOptions

kernels: Any = pyarrow.compute
METADATA = ("topic", "partition", OFFSET, TIMESTAMP, KEY, "headers")
"""Metadata of a record beside its value."""
Extra = Literal["error", "ignore"]
_TEXT = TextOptions()


def lines(fetched: Fetched, *, has_keys: bool) -> Any:
    """Return the records as a file of JSON lines.

    Args:
        fetched: The records.
        has_keys: Whether a line is `{"topic": …, "key": …, "value": …}` as of Debezium's messages;
            else it is the value, `null` for none.
    """
    return as_file(_blocks(fetched, has_keys=has_keys))


def _blocks(fetched: Fetched, *, has_keys: bool) -> Iterator[bytes]:
    topic = fetched.range.topic  # has no quotes: Kafka allows letters, digits, '.', '_', '-'
    for batch in fetched.records.to_batches():
        values = _one_line(batch[VALUE]).fill_null(b"null")
        parts = [values, b"\n"]
        if has_keys:
            keys = _one_line(batch[KEY])
            keys = kernels.if_else(kernels.starts_with(keys, "{"), keys, None).fill_null(b"null")
            parts = [f'{{"topic":"{topic}","key":'.encode(), keys, b',"value":', values, b"}\n"]
        _, data = parts_of_texts(kernels.binary_join_element_wise(*parts, b""))
        yield data.tobytes()


def _one_line(values: Any) -> Any:
    """Return JSON on one line each: in a text, a line break is escaped."""
    return kernels.replace_substring(values, "\n", " ")


def rows(
    fetched: Fetched,
    schema: pa.Schema,
    metadata: Mapping[str, str],
    extra: Extra = "error",
    *,
    check: text_lines.Check | None = None,
    reject: text_lines.Reject | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield a row of each record that has a value, in the types of a schema.

    Args:
        fetched: The records, whose values are objects of JSON.
        schema: The columns.
        metadata: Column of the schema → the metadata that it holds; see `METADATA`.
        extra: Whether members that no column takes are errors.
        check: Refuses parsed rows that do not fit.
        reject: Takes each record that does not parse or fit.

    Raises:
        FormatError: Kind `bad-record`: a record is no row, and there is no `reject`.
    """
    records = fetched.records.filter(kernels.is_valid(fetched.records[VALUE]))
    own = pa.schema([column for column in schema if column.name not in metadata])
    span = fetched.range

    def parse(first: int, end: int) -> list[pa.RecordBatch]:
        some = records.slice(first, end - first)
        data = _values(Fetched(range=span, records=some))
        parsed = list(_parse(data, span.name, own, extra))
        count = sum(each.num_rows for each in parsed)
        if count != len(some) or not has_object_a_line(data):
            raise pa.ArrowInvalid(f"{len(some)} values with {count} objects of JSON; one has one")
        batches, count = [], 0
        for batch in parsed:
            of_batch = some.slice(count, batch.num_rows)
            count += batch.num_rows
            columns = [
                describe_record(of_batch, span, metadata[column.name]).cast(column.type)
                if column.name in metadata
                else batch[column.name]
                for column in schema
            ]
            batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
            if check is not None:
                check(batches[-1])
        return batches

    def hand_over(number: int, reason: str) -> None:
        text = bytes(records[VALUE][number].as_py()).decode(errors="replace")
        place, plain = records[OFFSET][number].as_py(), text_lines.plain_reason(reason, schema)
        record = text_lines.Rejected(place=place, reason=plain, text=text)
        if reject is None:
            # A message of the JSON parser holds types and names, no values.
            raise text_lines.refusal(
                span.name, replace(record, text=""), text_lines.Place.OFFSET, show=True
            )
        reject(record)

    yield from text_lines.rows_of_records(len(records), parse, hand_over)


def _values(fetched: Fetched) -> bytes:
    records = fetched.records.filter(kernels.is_valid(fetched.records[VALUE]))
    return b"".join(_blocks(Fetched(range=fetched.range, records=records), has_keys=False))


def other_members(fetched: Iterable[Fetched], known: Sequence[str]) -> pa.Schema:
    """Return members of records that are not known, in types that hold their values."""
    seen: dict[str, Sequence[pa.DataType]] = {}
    for each in fetched:
        with suppress(pa.ArrowInvalid):  # `rows` reports the fault
            types = types_of_json(pa.BufferReader(_values(each)), known)
            for name in types.keys() - {*known}:
                seen[name] = [kind for kind in seen.get(name, ALL_TYPES) if kind in types[name]]
    return pa.schema(
        [(n, seen[n][0] if len(seen[n]) < len(ALL_TYPES) else pa.string()) for n in sorted(seen)]
    )


def _parse(data: bytes, name: str, schema: pa.Schema, extra: Extra) -> Iterator[pa.RecordBatch]:
    """Yield the rows of lines as the reader of files does, whose look at the types is left out."""
    plain = pa.schema(
        [each.with_type(read_type(each.type, _TEXT, is_json=True)) for each in schema]
    )
    source: Any = pa.BufferReader(data)
    try:
        check_records(data)
        table = pa_json.read_json(
            source,
            read_options=pa_json.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
            parse_options=pa_json.ParseOptions(
                explicit_schema=plain, unexpected_field_behavior=extra
            ),
        )
        batches = [parse_columns(each, schema, _TEXT, zone="UTC") for each in table.to_batches()]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # The reader of files takes it, or reports the fault.
        source = text_lines.OneFile(data)
        kind = FileKind(format="json", others="" if extra == "error" else extra)
        with open_fitted(source, name, kind, schema) as opened:
            _refuse_extra_members(name, opened.schema.names, schema.names)
            yield from opened.batches
    else:
        yield from batches


def _refuse_extra_members(name: str, members: list[str], columns: list[str]) -> None:
    extra = ", ".join(sorted({*members} - {*columns}))
    if extra:
        message = (
            f"'{name}': records have members that no column takes: {extra}. Declare them, "
            "or set KafkaSource(extra_columns='add' or 'ignore')."
        )
        raise FormatError(message, kind="kafka-record", source=name)


def describe_record(records: pa.Table, span: OffsetRange, name: str) -> Any:
    """Return a column of metadata of records; see `METADATA`."""
    if name in {"topic", "partition"}:
        return pa.repeat(pa.scalar(getattr(span, name)), len(records))
    column: Any = records[name].combine_chunks()
    if name != KEY:
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid as error:
        message = (
            f"'{span.name}': a key is no text in UTF-8: {error}. Leave 'key' out of the metadata."
        )
        raise FormatError(message, kind="kafka-record", source=span.topic) from error
