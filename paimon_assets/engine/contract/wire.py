"""The values of the contract as bytes: a DataSplit as Java writes it, the rest with a version.

DataSplit has Java's binary form, versions 2 to 9; several stand one behind the other. A DataSplit
in the wrapper of Paimon 2 (SPLIT_V1) is read as well. All other values, and errors:

    bytes    length · JSON {"what": class, "version", "value"} · the parts, each behind its length
    value    null, truth values, integers and texts as they are; tuples as lists
             all else is {name: content}: an object's class and its members in their order;
             float, map; bytes, and classes with their own form, as {name: number of a part}

A class is read where the annotations of the value asked for name it, and no other.
Source: `org.apache.paimon.table.source.DataSplit` (serialize, deserialize).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from typing import Any, TypeVar, cast, get_args, get_type_hints

from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import (
    UNREADABLE,
    schema_from_json,
    schema_to_json,
)
from paimon_assets.engine.codec.rows.data_file_row import file_from_row, file_to_row
from paimon_assets.engine.codec.rows.java_stream import DataInput, DataOutput
from paimon_assets.engine.contract.split import DataSplit, DeletionFile
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import IndexFileMeta
from paimon_assets.engine.spec.paths import plain_name, straight_path
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import field_to_json, parse_field
from paimon_assets.engine.spec.values import Value

T = TypeVar("T")

SPLIT_VERSION = 8
SPLIT_MAGIC = -2_394_839_472_490_812_314
WRAPPED_SPLIT_MAGIC = 0x53504C49545F5631
_WRAPPER = 1
"""Its version; the types of wrapped splits follow."""
_WRAPPED_PLAIN, _WRAPPED_OF_FALLBACK, _WRAPPED_TWICE = 1, 6, 7
_FLAGS = (b"\0", b"\1")
_FILE_ARITY = {2: 16, 3: 17, 4: 17, 5: 18, 6: 18, 7: 19, 8: 20, 9: 21}
"""Version → members of a file's row."""
_LAST_VERSION = max(_FILE_ARITY)
_CARDINALITY_SINCE = 4
_TOTAL_BUCKETS_SINCE = 6
_UNKNOWN_CARDINALITY = -1


def dump_split(split: DataSplit, version: int = SPLIT_VERSION) -> bytes:
    """Encode a split as Java Paimon does: 2.1 in 9, 1.3 to 2.0 in 8, older releases in 2 to 7."""
    if version not in _FILE_ARITY:
        message = f"DataSplit version {version} is not written; versions 2 to {_LAST_VERSION} are."
        raise errors.InvalidInputError(message, kind="split-version", version=version)
    out = DataOutput()
    out.write_long(SPLIT_MAGIC)
    out.write_int(version)
    out.write_long(split.snapshot_id)
    out.write_bytes(split.partition)
    out.write_int(split.bucket)
    out.write_utf(split.bucket_path)
    if version >= _TOTAL_BUCKETS_SINCE:
        write_optional_int(out, split.total_buckets)
    write_files(out, split.before_files, _FILE_ARITY[version])
    _write_deletions(out, split.before_deletion_files, version)
    write_files(out, split.data_files, _FILE_ARITY[version])
    _write_deletions(out, split.deletion_files, version)
    out.write_boolean(split.is_streaming)
    out.write_boolean(split.raw_convertible)
    if split.is_fallback is not None:
        out.write_boolean(split.is_fallback)
    return out.to_bytes()


def load_split(data: bytes) -> DataSplit:
    """Decode a split of Java Paimon 0.9 to 2.1 (versions 2 to 9)."""
    source = DataInput(data)
    split = _read_split(source)
    if not source.at_end():
        raise errors.FormatError("Bytes are left behind a split.", kind="wire")
    return split


def load_splits(data: bytes) -> tuple[DataSplit, ...]:
    """Decode splits that stand one behind the other; raises as `load_split`."""
    source, splits = DataInput(data), []
    while not source.at_end():
        splits.append(_read_split(source))
    return tuple(splits)


def _read_split(source: DataInput) -> DataSplit:
    """Read a split; those of tables with a fallback branch have a boolean behind them.

    No split begins with a byte that is one.
    """
    magic = source.read_long()
    if magic == WRAPPED_SPLIT_MAGIC:
        if _wrapped_type(source) == _WRAPPED_TWICE:
            is_fallback = source.read_boolean()
            return replace(_read_split(source), is_fallback=is_fallback)
        magic = source.read_long()
    version = _split_version(source, magic)
    split = DataSplit(
        snapshot_id=source.read_long(),
        partition=source.read_bytes(),
        bucket=source.read_int(),
        bucket_path=source.read_utf(),
        total_buckets=read_optional_int(source) if version >= _TOTAL_BUCKETS_SINCE else None,
        before_files=_read_files(source, version),
        before_deletion_files=_read_deletions(source, version),
        data_files=_read_files(source, version),
        deletion_files=_read_deletions(source, version),
        is_streaming=source.read_boolean(),
        raw_convertible=source.read_boolean(),
        is_fallback=source.read_boolean() if source.peek() in _FLAGS else None,
    )
    if split.is_streaming and split.before_files:
        raise errors.UnsupportedFeatureError(
            f"The split of bucket {split.bucket} of snapshot {split.snapshot_id} carries files of"
            " before a compaction (before-files of a streaming diff); they are not read.",
            kind="split-before-files",
        )
    return split


def _wrapped_type(source: DataInput) -> int:
    wrapper, kind = source.read_int(), source.read_int()
    if wrapper != _WRAPPER or kind not in (_WRAPPED_PLAIN, _WRAPPED_OF_FALLBACK, _WRAPPED_TWICE):
        raise errors.UnsupportedFeatureError(
            f"A wrapped split (SPLIT_V1) of version and type {wrapper, kind} is not read: it holds"
            " more than its DataSplit, such as row ids. Pass plain DataSplits.",
            kind="split-version",
        )
    return kind


def _split_version(source: DataInput, magic: int) -> int:
    version = source.read_int() if magic == SPLIT_MAGIC else 1
    if version not in _FILE_ARITY:
        message = f"DataSplit version {version} is not read; versions 2 to {_LAST_VERSION} are."
        raise errors.UnsupportedFeatureError(message, kind="split-version", version=version)
    return version


def _write_deletions(
    out: DataOutput, deletions: Sequence[DeletionFile | None] | None, version: int
) -> None:
    out.write_boolean(deletions is not None)
    if deletions is None:
        return
    out.write_int(len(deletions))
    for deletion in deletions:
        out.write_boolean(deletion is not None)
        if deletion is not None:
            cardinality = deletion.cardinality
            out.write_utf(deletion.path)
            out.write_long(deletion.offset)
            out.write_long(deletion.length)
            if version >= _CARDINALITY_SINCE:
                out.write_long(_UNKNOWN_CARDINALITY if cardinality is None else cardinality)


def _read_deletions(source: DataInput, version: int) -> tuple[DeletionFile | None, ...] | None:
    if not source.read_boolean():
        return None
    deletions: list[DeletionFile | None] = []
    for _ in range(source.read_int()):
        if not source.read_boolean():
            deletions.append(None)
            continue
        path, offset, length = source.read_utf(), source.read_long(), source.read_long()
        number = source.read_long() if version >= _CARDINALITY_SINCE else _UNKNOWN_CARDINALITY
        cardinality = None if number == _UNKNOWN_CARDINALITY else number
        deletions.append(
            DeletionFile(path=path, offset=offset, length=length, cardinality=cardinality)
        )
    return tuple(deletions)


def write_optional_int(out: DataOutput, value: int | None) -> None:
    out.write_boolean(value is not None)
    if value is not None:
        out.write_int(value)


def read_optional_int(source: DataInput) -> int | None:
    return source.read_int() if source.read_boolean() else None


def write_files(
    out: DataOutput, files: Sequence[DataFileMeta], arity: int = _FILE_ARITY[SPLIT_VERSION]
) -> None:
    """Write data files as Java file rows of the first `arity` members."""
    out.write_int(len(files))
    for file in files:
        out.write_bytes(file_to_row(file, arity))


def _read_files(source: DataInput, version: int) -> tuple[DataFileMeta, ...]:
    arity = _FILE_ARITY[version]
    return tuple(file_from_row(source.read_bytes(), arity) for _ in range(source.read_int()))


WIRE_VERSION = 2
"""Version of these encodings; both sides of a job run the same one."""

_PLAIN = frozenset({type(None), bool, int, str})
_OWN_FORMS: Mapping[type, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    bytes: (bytes, bytes),
    Decimal: (lambda number: str(number).encode(), lambda data: Decimal(data.decode())),
    DataSplit: (dump_split, load_split),
    DataFileMeta: (file_to_row, file_from_row),
    TableSchema: (schema_to_json, partial(schema_from_json, path="schema of a context")),
    DataField: (
        lambda field: json.dumps(field_to_json(field)).encode(),
        lambda data: parse_field(json.loads(data)),
    ),
}
_BY_NAME = {kind.__name__: load for kind, (_, load) in _OWN_FORMS.items()}


def dump(value: Any) -> bytes:
    """Encode a value of the contract; storage options, credentials included, are in the bytes."""
    parts: list[bytes] = []
    header = {"what": type(value).__name__, "version": WIRE_VERSION, "value": _json(value, parts)}
    out = DataOutput()
    out.write_bytes(json.dumps(header, separators=(",", ":")).encode())
    for part in parts:
        out.write_bytes(part)
    return out.to_bytes()


def load(kind: type[T], data: bytes) -> T:
    source, name, asked = DataInput(data), kind.__name__, cast("Any", kind)
    try:
        members, parts = json.loads(source.read_bytes()), []
        if (found := (members["what"], members["version"])) != (name, WIRE_VERSION):
            raise errors.FormatError(
                f"Expected a {name} of version {WIRE_VERSION}, got {found}; driver and workers "
                "must run the same version of paimon-assets.",
                kind="wire",
            )
        while not source.at_end():
            parts.append(source.read_bytes())
        value: T = _value(members["value"], _classes(asked), parts)
    except UNREADABLE as error:
        raise errors.FormatError(f"A {name} is damaged: {error!r}.", kind="wire") from error
    return value


def _json(value: Any, parts: list[bytes]) -> Any:
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        plain = _PLAIN.issuperset(map(type, value))
        return value if plain else [_json(item, parts) for item in value]
    if kind in _OWN_FORMS:
        parts.append(_OWN_FORMS[kind][0](value))
        return {kind.__name__: len(parts) - 1}
    names = _members(kind)
    if names is not None:
        return {kind.__name__: [_json(getattr(value, name), parts) for name in names]}
    match value:
        case Enum():
            return {kind.__name__: [value.value]}
        case str():
            return str(value)  # numpy's texts
        case float():
            return {"float": value.hex()}  # exact, and knows NaN
        case Mapping():
            return {"map": [[_json(key, parts), _json(held, parts)] for key, held in value.items()]}
        case _:
            raise errors.InvalidInputError(
                f"{value!r} is no internal value; bind the predicate first.", kind="literal"
            )


def _value(json_: Any, classes: Mapping[str, Any], parts: Sequence[bytes]) -> Any:
    if type(json_) in _PLAIN:
        return json_
    if isinstance(json_, list):
        plain = _PLAIN.issuperset(map(type, json_))
        return tuple(json_ if plain else [_value(item, classes, parts) for item in json_])
    [(name, content)] = json_.items()
    match name:
        case "float":
            return float.fromhex(content)
        case "map":
            return dict(_value(content, classes, parts))
        case _ if name in _BY_NAME:
            return _BY_NAME[name](parts[content])
        case _:
            kind, members = classes[name], _value(content, classes, parts)
    names = _members(kind)
    value = kind(*members) if names is None else kind(**dict(zip(names, members, strict=True)))
    if isinstance(value, IndexFileMeta):
        plain_name(value.file_name)
        straight_path(value.external_path or "")
    return value


@cache
def _members(kind: Any) -> tuple[str, ...] | None:
    """Return an object's member names; None if it has none."""
    names: tuple[str, ...] | None = getattr(kind, "__struct_fields__", None)
    return getattr(kind, "_fields", None) if names is None else names


@cache
def _classes(kind: Any) -> Mapping[str, Any]:
    """Return the classes that a value may hold by their names, itself among them."""
    found: dict[str, Any] = {}
    waiting: list[Any] = [kind]
    while waiting:
        hint = waiting.pop()
        waiting += get_args(hint)
        if isinstance(hint, type) and hint not in _OWN_FORMS and hint.__name__ not in found:
            if _members(hint) is not None:
                waiting += get_type_hints(hint).values()
            elif not issubclass(hint, Enum):
                continue
            found[hint.__name__] = hint
    return found


class RaisedError(Value):
    name: str
    message: str
    kind: str
    details: Mapping[str, errors.Detail]


def dump_error(error: errors.PaimonError) -> bytes:
    """Encode an error as its class, message, kind and details."""
    name, details = type(error).__name__, json.loads(json.dumps(error.details))
    return dump(RaisedError(name=name, message=error.message, kind=error.kind, details=details))


def load_error(data: bytes) -> errors.PaimonError:
    """Inverse of `dump_error`; an unknown class becomes a plain PaimonError."""
    found = load(RaisedError, data)
    error_class = errors.ERROR_CLASSES.get(found.name, errors.PaimonError)
    return error_class.of_parts(found.message, found.kind, found.details)
