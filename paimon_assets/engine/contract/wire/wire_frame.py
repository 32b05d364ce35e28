"""What the encodings of the contract share: header, files, schemas, storage.

Every value but DataSplit begins with its length and a JSON header {"what", "version", ...}.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from paimon_assets.engine.codec.json.metadata_json import schema_from_json, schema_to_json
from paimon_assets.engine.codec.rows.data_file_row import file_from_row, file_to_row
from paimon_assets.engine.codec.rows.java_stream import DataInput, DataOutput
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.schema.schema import TableSchema

WIRE_VERSION = 1
"""Version of the engine's own encodings; both sides of a job run the same one."""

FILE_ARITY = 20
"""Members of a file row as this engine writes it (Java 1.3 to 2.0)."""


def header(what: str, members: Mapping[str, Any]) -> DataOutput:
    """Begin an encoding with its header."""
    out = DataOutput()
    header = {"what": what, "version": WIRE_VERSION, **members}
    out.write_bytes(json.dumps(header, separators=(",", ":")).encode())
    return out


@contextmanager
def opened(data: bytes, what: str) -> Iterator[tuple[dict[str, Any], DataInput]]:
    """Open an encoding while the block reads: the members of its header, and the bytes behind it.

    Raises:
        FormatError: Damaged, another kind of value, or written by another version.
    """
    source = DataInput(data)
    try:
        members = json.loads(source.read_bytes())
    except ValueError as error:
        raise FormatError(f"The header of a {what} is damaged: {error}.", kind="wire") from error
    found = (members.get("what"), members.get("version")) if isinstance(members, dict) else None
    if found != (what, WIRE_VERSION):
        raise FormatError(
            f"Expected a {what} of version {WIRE_VERSION}, got {found}; driver and workers must "
            "run the same version of paimon-assets.",
            kind="wire",
        )
    try:
        yield members, source
    except (LookupError, TypeError, ValueError) as error:
        raise FormatError(f"A {what} is damaged: {error!r}.", kind="wire") from error


def write_optional_int(out: DataOutput, value: int | None) -> None:
    """Write whether there is a number, and the number."""
    out.write_boolean(value is not None)
    if value is not None:
        out.write_int(value)


def read_optional_int(source: DataInput) -> int | None:
    """Inverse of `write_optional_int`."""
    return source.read_int() if source.read_boolean() else None


def write_files(out: DataOutput, files: Sequence[DataFileMeta], arity: int = FILE_ARITY) -> None:
    """Write data files as Java file rows of the first `arity` members.

    Raises:
        InvalidInputError: A later member says something that a reader must know.
    """
    out.write_int(len(files))
    for file in files:
        out.write_bytes(file_to_row(file, arity))


def read_files(source: DataInput, arity: int) -> tuple[DataFileMeta, ...]:
    """Read data files whose rows have `arity` members."""
    count = source.read_int()
    return tuple(file_from_row(source.read_bytes(), arity) for _ in range(count))


def schema_text(schema: TableSchema) -> str:
    """Return a schema as text."""
    return schema_to_json(schema).decode()


def schema_of(text: str) -> TableSchema:
    """Inverse of `schema_text`."""
    return schema_from_json(text.encode(), "schema of a context")


def file_io_json(spec: FileIOSpec) -> dict[str, Any]:
    """Return how to open a storage; holds its options, credentials included."""
    members: dict[str, Any] = {"scheme": spec.scheme, "options": dict(spec.options)}
    ends = {"expires": spec.expires_ms, "renewedBy": spec.renewed_by}
    return {**members, **{key: value for key, value in ends.items() if value is not None}}


def file_io_of(json_: Mapping[str, Any]) -> FileIOSpec:
    """Inverse of `file_io_json`."""
    return FileIOSpec(
        scheme=json_["scheme"],
        options=json_["options"],
        expires_ms=json_.get("expires"),
        renewed_by=json_.get("renewedBy"),
    )


def base64_text(data: bytes) -> str:
    """Return bytes as text."""
    return base64.b64encode(data).decode()
