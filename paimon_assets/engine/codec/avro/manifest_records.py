"""Records of manifests of every kind: Avro schemas to write, and records of any format to read.

Read by name: fields an older version did not write are None or absent. Old tables may hold ORC or
Parquet manifests (`manifest.format`); the first bytes show which.
Source: `org.apache.paimon.utils.ObjectsFile`, `VersionedObjectSerializer`.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pyarrow.types as pat

from paimon_assets.engine.codec.avro.avro import Record, RecordSchema, read_container, read_rows
from paimon_assets.engine.errors import FormatError

T = TypeVar("T")

_NAMESPACE = "org.apache.paimon.avro.generated"


def field(name: str, avro_type: Any) -> Record:
    """Return a field that is never null."""
    return {"name": name, "type": avro_type}


def nullable(name: str, avro_type: Any) -> Record:
    """Return a field that may be null; Java takes the first branch of the union for null."""
    return {"name": name, "type": ["null", avro_type], "default": None}


def array(items: Any) -> Record:
    """Return the type of an array."""
    return {"type": "array", "items": items}


def record(name: str, *fields: Record) -> Record:
    """Return the type of a record inside another."""
    return {"type": "record", "name": name, "fields": list(fields)}


def record_schema(*fields: Record) -> RecordSchema:
    """Return the schema of a manifest's records, as Java names them; `_VERSION` is the first."""
    versioned = [field("_VERSION", "int"), *fields]
    schema = {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": versioned}
    return RecordSchema.of(json.dumps(schema, separators=(",", ":")).encode())


def record_of(value: Any, fields: Sequence[Record]) -> Record:
    """Return the record of a value, whose attribute `a_b` is field `_A_B`."""
    return {field["name"]: getattr(value, _attribute(field["name"])) for field in fields}


def attributes_of(raw: Record, fields: Sequence[Record]) -> Record:
    """Return the attributes of the value a record is made of, the inverse of `record_of`.

    Records inside stay records; fields with a default may be missing.
    """
    return {
        _attribute(name := field["name"]): raw.get(name) if "default" in field else raw[name]
        for field in fields
    }


def _attribute(name: str) -> str:
    return name.removeprefix("_").lower()


def built_records(
    data: bytes, path: str, build: Callable[[Record], T], *, version: int
) -> Iterator[T]:
    """Yield a value for every record of a manifest."""
    columnar = _columnar_records(data, path)
    for raw in read_container(data, path) if columnar is None else columnar:
        if raw.get("_VERSION") != version:
            raise unsupported_version(path, raw.get("_VERSION"), version)
        try:
            yield build(raw)
        except DAMAGED as error:
            raise damaged_record(path, error) from error


DAMAGED = (KeyError, TypeError, ValueError)
"""What building a value of a damaged record may raise."""


def damaged_record(path: str, error: Exception) -> FormatError:
    """Return the error for an impossible record."""
    return FormatError(
        f"{path}: a manifest record is damaged ({error!r}).",
        kind="manifest-record",
        details={"path": path},
    )


def unsupported_version(path: str, found: Any, version: int) -> FormatError:
    """Return the error for a record of another `_VERSION`."""
    return FormatError(
        f"{path}: unsupported manifest record version {found}; this engine reads {version}.",
        kind="manifest-version",
        details={"path": path},
    )


def manifest_rows(data: bytes, path: str, wanted: RecordSchema) -> Iterator[Sequence[Any]]:
    """Yield the records of a manifest as values, for those that come by the hundred thousand."""
    columnar = _columnar_records(data, path)
    if columnar is None:
        yield from read_rows(data, path, wanted)
        return
    schema = json.loads(wanted.text)
    try:
        for raw in columnar:
            yield _values(raw, schema)
    except DAMAGED as error:
        raise damaged_record(path, error) from error


def _values(raw: Record, schema: Any) -> Sequence[Any]:
    values = []
    for field in schema["fields"]:
        value = raw.get(field["name"]) if "default" in field else raw[field["name"]]
        values.append(_values(value, field["type"]) if isinstance(value, dict) else value)
    return values


def _columnar_records(data: bytes, path: str) -> Sequence[Record] | None:
    """Return the records of a manifest that is no Avro file."""
    try:
        if data.startswith(b"ORC"):
            return _table_records(orc.ORCFile(pa.BufferReader(data)).read())
        if data.startswith(b"PAR1"):
            return _table_records(pq.read_table(pa.BufferReader(data)))
    except (pa.ArrowException, OSError) as error:
        raise FormatError(
            f"{path}: damaged manifest, {error}", kind="manifest", details={"path": path}
        ) from error
    return None


def _table_records(table: pa.Table) -> Sequence[Record]:
    """One dictionary a row: only old tables have such manifests, and small ones."""
    schema = pa.schema([column.with_type(_with_millis(column.type)) for column in table.schema])
    return table.cast(schema).to_pylist()


def _with_millis(arrow_type: Any) -> Any:
    # Python's datetime has no nanoseconds; manifests have none either.
    if pat.is_timestamp(arrow_type):
        return pa.timestamp("ms", tz=arrow_type.tz)
    if pat.is_struct(arrow_type):
        return pa.struct([inner.with_type(_with_millis(inner.type)) for inner in arrow_type])
    return arrow_type
