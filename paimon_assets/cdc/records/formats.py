"""changes_of: the changes in a file of records, by the name of their format."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from paimon_assets.cdc.records.assembling import Block, Read, batches_of, no_columns, origin_of
from paimon_assets.cdc.records.change_batch import CdcOptions, ChangeBatch
from paimon_assets.cdc.records.debezium import ENVELOPE, debezium_reader, keyed_rows
from paimon_assets.cdc.records.json_columns import Envelope
from paimon_assets.cdc.records.json_records import Records, Source, records_of
from paimon_assets.cdc.records.mysql_logs import canal_batches, maxwell_batches
from paimon_assets.engine.codec.arrow.numpy_columns import Longs
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.values import Value


class CdcFormat(Value):
    """A format of change records."""

    name: str
    reader: Callable[[], Read]
    """Makes the reader of the blocks of a file."""
    has_keys: bool = False
    """Whether it reads the keys of messages, too."""
    envelope: Envelope = Envelope()
    """Objects that are read with its records."""
    is_avro: bool = False
    """Whether it is that of messages in Avro, by schemas of a registry: see `avro_messages`."""


def _plain_batches(records: Records, source: Source) -> Iterator[ChangeBatch]:
    """Objects are rows to insert."""
    zeros = np.zeros(len(records), dtype=np.int32)
    block = Block(
        records=records,
        names=[(None, None, None)],
        tables=zeros,
        owners=np.arange(len(records)),
        kinds=zeros.astype(np.int8),
        columns=lambda rows: records.values.take(rows).members().columns,
        origin=origin_of(records, source),
        metadata=no_columns(len(records)),
    )
    yield from batches_of(block, source)


CDC_FORMATS: Mapping[str, CdcFormat] = {
    known.name: known
    for known in (
        CdcFormat(name="debezium-json", reader=debezium_reader, envelope=ENVELOPE, has_keys=True),
        CdcFormat(name="debezium-avro", reader=debezium_reader, envelope=ENVELOPE, has_keys=True,
                  is_avro=True),
        CdcFormat(name="canal-json", reader=lambda: canal_batches),
        CdcFormat(name="maxwell-json", reader=lambda: maxwell_batches,
                  envelope=Envelope(("data",), {("data",): frozenset()})),
        CdcFormat(name="json", reader=lambda: _plain_batches),
    )
}  # fmt: skip
KEYED_ROWS = CdcFormat(name="json", reader=lambda: keyed_rows, has_keys=True)
"""Rows of messages: a later one of a key replaces it, one without a value deletes it."""
_NOT_BUILT = ("debezium-bson", "ogg-json", "aws-dms-json", "aliyun-json")


def cdc_format(name: str) -> CdcFormat:
    """Return a format by its name.

    Raises:
        UnsupportedFeatureError: Kind `cdc-format`: Paimon's Flink actions read it, this does not.
        InvalidInputError: Kind `cdc-format`: there is none of that name.
    """
    if name in CDC_FORMATS:
        return CDC_FORMATS[name]
    known = ", ".join(CDC_FORMATS)
    if name in _NOT_BUILT:
        message = f"Records of format '{name}' are not read; let the connector write {known}."
        raise UnsupportedFeatureError(message, kind="cdc-format", format=name)
    message = f"There is no format '{name}' of change records; expected {known}."
    raise InvalidInputError(message, kind="cdc-format", format=name)


def changes_of(
    stream: Any,
    file: str,
    kind: CdcFormat,
    options: CdcOptions | None = None,
    *,
    offsets: Longs | None = None,
    schemas: Sequence[str] = (),
) -> Iterator[ChangeBatch]:
    """Yield the changes in a file: lines of JSON, objects over several lines, or one array.

    Args:
        stream: Has `read(size)`; decompressed.
        file: Its name, as `origin` and errors have it.
        kind: The format of its records.
        options: How they are read.
        offsets: Of a file of messages, line → offset.
        schemas: Connect schemas that its records name by number.

    Raises:
        FormatError: Kind `cdc-record`: a record cannot be read, and there is no `reject`.
        UnsupportedFeatureError: Kind `cdc-type`: a column is of a type that is not read.

    Cost:
        One pass, in blocks; memory is some ten times `options.block_bytes`.
    """
    options = options or CdcOptions()
    envelope = replace(kind.envelope, keys=options.keys)
    source = Source(file, options, offsets, [*schemas], envelope, has_schemas=kind.has_keys)
    read = kind.reader()
    for records in records_of(stream, source):
        yield from read(records, source)
