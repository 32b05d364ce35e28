"""Messages in Confluent's wire format → messages of JSON: 0, number of the schema, Avro.

The number names a schema of the registry; messages of several may be mixed.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_assets.cdc.records.avro_texts import AvroTexts
from paimon_assets.cdc.records.json_columns import Array, kernels
from paimon_assets.cdc.records.json_records import Source
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.casting.cast import truth_of

SchemaOf: TypeAlias = Callable[[int], AvroTexts]
_KEY, _VALUE = "key", "value"
_HEAD = 5
_BIG_ENDIAN = np.array([24, 16, 8, 0])
_NO_AVRO = "it begins with no 0 and number of a schema in Confluent's wire format"
_IN_HEADERS = "the id of its schema is in its headers, which is not read"


def json_messages(
    messages: pa.Table, schema_of: SchemaOf, source: Source
) -> tuple[pa.Table, list[str]]:
    """Return messages with keys and values as JSON, and the schemas that values name by number.

    A message that cannot be read is rejected, and has neither key nor value then. Keys that are no
    Avro are left out.

    Raises:
        FormatError: Kind `cdc-record`: a message cannot be read, and there is no `reject`.
    """
    known: dict[int, AvroTexts] = {}
    parts = []
    line = 1
    for batch in messages.to_batches():
        keys, wrong_keys = _texts(batch[_KEY], schema_of, None)
        values, wrong = _texts(batch[_VALUE], schema_of, known)
        is_other = truth_of(batch[_VALUE].is_valid()) & truth_of(values.is_null()) & (wrong == "")
        in_headers = is_other & truth_of(kernels.starts_with(batch[_VALUE], b"\1"))
        wrong[is_other], wrong[in_headers] = _NO_AVRO, _IN_HEADERS
        wrong = np.where(wrong == "", wrong_keys, wrong)
        if (wrong != "").any():
            bad = np.flatnonzero(wrong != "")
            texts = batch[_VALUE].take(from_numpy(bad)).to_pylist()
            reasons = [f"{why}." for why in wrong[bad]]
            source.reject_texts((bad + line).tolist(), reasons, [(t or b"").hex() for t in texts])
            stays = from_numpy(wrong == "")
            keys, values = (kernels.if_else(stays, each, None) for each in (keys, values))
        parts.append((keys, values))
        line += len(batch)
    for name, columns in zip((_KEY, _VALUE), zip(*parts, strict=True), strict=False):
        number = messages.schema.get_field_index(name)
        messages = messages.set_column(number, name, pa.chunked_array([*columns], pa.binary()))
    return messages, [avro.connect_schema for avro in known.values()]


def _texts(
    messages: Array, schema_of: SchemaOf, known: dict[int, AvroTexts] | None
) -> tuple[Array, Any]:
    """Return JSON, null for messages that are no Avro, and the faults of messages.

    With `known`, a text names its schema by the place there.
    """
    wrong = np.full(len(messages), "", dtype=object)
    is_avro = kernels.greater_equal(kernels.binary_length(messages), pa.scalar(_HEAD))
    rows = np.flatnonzero(truth_of(kernels.and_(is_avro, kernels.starts_with(messages, b"\0"))))
    avro = messages.take(from_numpy(rows))
    heads = kernels.binary_slice(avro, 1, _HEAD).dictionary_encode()
    codes = to_numpy(heads.indices)
    digits = np.frombuffer(b"".join(heads.dictionary.to_pylist()), dtype=np.uint8).reshape(-1, 4)
    numbers = (digits.astype(np.int64) << _BIG_ENDIAN).sum(axis=1)
    texts, places = [pa.nulls(0, pa.binary())], [rows[:0]]
    for code, number in enumerate(numbers.tolist()):
        own = np.flatnonzero(codes == code)
        reader = schema_of(number)
        found, is_whole = reader.read(avro.take(from_numpy(own)), _HEAD)
        if known is not None:
            known[number] = reader
            head = f'{{"schema":{[*known].index(number)},"payload":'.encode()
            found = kernels.binary_join_element_wise(head, found, b"}", b"")
        wrong[rows[own[~is_whole]]] = f"it does not end where schema {number} ends"
        texts.append(found)
        places.append(rows[own])
    # Texts are in the order of schemas; `order` has the place of each message's text, -1 if it
    # is no Avro.
    order = np.full(len(messages), -1, dtype=np.int64)
    order[np.concatenate(places)] = np.arange(len(rows))
    wanted = kernels.if_else(from_numpy(order >= 0), from_numpy(order), None)
    return pa.concat_arrays(texts).take(wanted), wrong
