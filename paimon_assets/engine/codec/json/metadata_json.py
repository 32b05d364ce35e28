"""Snapshots, schemas, tags and statistics ⇄ the JSON of their files.

Members this engine does not know are kept and written back; absent and null are the same, and null
is never written. Tags without a time to live are plain snapshots, which every Paimon reads.
Source: `org.apache.paimon.Snapshot`, `org.apache.paimon.schema.SchemaSerializer`,
`org.apache.paimon.tag.Tag`, `org.apache.paimon.stats.StatsFile`.
"""

import datetime as dt
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, TypeVar, cast

from msgspec.structs import replace

from paimon_assets.engine.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.snapshot import (
    CURRENT_SNAPSHOT_VERSION,
    CommitKind,
    Snapshot,
    Statistics,
    Tag,
)
from paimon_assets.engine.spec.options.all_options import BUCKET, FILE_FORMAT
from paimon_assets.engine.spec.paths import plain_name
from paimon_assets.engine.spec.schema.schema import CURRENT_SCHEMA_VERSION, TableSchema
from paimon_assets.engine.spec.types.type_text import Json, field_to_json, parse_field
from paimon_assets.engine.spec.words import camel_case

T = TypeVar("T")
_AROUND = 20
"""Characters shown on each side of what is no text."""
_PARQUET_DEFAULT_SINCE = 3
"""Schema version from which a table without `file.format` holds Parquet, not ORC."""


def snapshot_from_json(data: bytes, path: str) -> Snapshot:
    return snapshot_from_members(json_object(data, path), path)


_SNAPSHOT = {
    "uuid": "text?",
    "id": "integer",
    "schema_id": "integer",
    "base_manifest_list": "file_name",
    "base_manifest_list_size": "integer?",
    "delta_manifest_list": "file_name",
    "delta_manifest_list_size": "integer?",
    "changelog_manifest_list": "file_name?",
    "changelog_manifest_list_size": "integer?",
    "index_manifest": "file_name?",
    "commit_user": "text",
    "writer_version": "text?",
    "commit_identifier": "integer",
    "commit_kind": "text",
    "time_millis": "integer",
    "total_record_count": "integer",
    "delta_record_count": "integer",
    "changelog_record_count": "integer?",
    "watermark": "integer?",
    "statistics": "file_name?",
    "properties": "texts",
    "next_row_id": "integer?",
}
"""Attribute → the reader of its member, which may be absent if it ends in `?`; in Java's order."""


def snapshot_from_members(parsed: Mapping[str, Json], path: str) -> Snapshot:
    """Read a snapshot from parsed JSON; errors are those of `snapshot_from_json`."""
    members = _Members(dict(parsed), path)
    values: dict[str, Any] = {"version": members.version(CURRENT_SNAPSHOT_VERSION, "snapshot")}
    for name, reader in _SNAPSHOT.items():
        key, take = camel_case(name), getattr(members, reader.rstrip("?"))
        values[name] = members.optional(key, take) if reader.endswith("?") else take(key)
    kind = values["commit_kind"]
    if kind not in CommitKind.__members__:
        raise members.damaged(f"unknown commitKind '{kind}'")
    return Snapshot(**{**values, "commit_kind": CommitKind(kind)}, unknown=members.rest())


def snapshot_to_json(snapshot: Snapshot) -> bytes:
    """Write a `snapshot-N` file: UTF-8 JSON, members in Java's order, nulls left out."""
    return json_bytes(snapshot_members(snapshot))


def snapshot_members(snapshot: Snapshot) -> dict[str, Json]:
    """Return the members of a snapshot's JSON in Java's order, nulls left out."""
    members: dict[str, Any] = {
        camel_case(name): getattr(snapshot, name) for name in ("version", *_SNAPSHOT)
    }
    members["commitKind"] = snapshot.commit_kind.value
    members["properties"] = dict(snapshot.properties) or None
    return _written(members, snapshot.unknown)


def schema_from_json(data: bytes, path: str) -> TableSchema:
    """Parse a `schema-N` file.

    Defaults that changed with the schema version (one bucket in version 1, ORC before version 3)
    become explicit options.
    """
    members = _Members(json_object(data, path), path)
    version = members.version(CURRENT_SCHEMA_VERSION, "schema")
    options = dict(members.texts("options"))
    if version == 1:
        options.setdefault(BUCKET.key, "1")
    if version < _PARQUET_DEFAULT_SINCE:
        options.setdefault(FILE_FORMAT.key, "orc")
    try:
        columns = cast("list[Mapping[str, Json]]", members.items("fields"))
        fields = tuple(parse_field(column) for column in columns)
    except FormatError as error:
        raise members.damaged(error.message) from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise members.damaged(f"a field cannot be read ({error!r})") from error
    return TableSchema(
        version=version,
        id=members.integer("id"),
        fields=fields,
        highest_field_id=members.integer("highestFieldId"),
        partition_keys=members.names("partitionKeys"),
        primary_keys=members.names("primaryKeys"),
        options=options,
        comment=members.optional("comment", members.text),
        time_millis=members.optional("timeMillis", members.integer) or 0,
        unknown=members.rest(),
    )


def schema_to_json(schema: TableSchema) -> bytes:
    """Write a `schema-N` file: UTF-8 JSON, members in Java's order, nulls left out."""
    members = _written(
        {
            "version": schema.version,
            "id": schema.id,
            "fields": [field_to_json(field) for field in schema.fields],
            "highestFieldId": schema.highest_field_id,
            "partitionKeys": list(schema.partition_keys),
            "primaryKeys": list(schema.primary_keys),
            "options": dict(schema.options),
            "comment": schema.comment,
            "timeMillis": schema.time_millis,
        },
        schema.unknown,
    )
    return json_bytes(members)


def _written(known: Mapping[str, Json], unknown: Mapping[str, Json]) -> dict[str, Json]:
    # Java reads an explicit null comment as the text "null".
    members: dict[str, Json] = {key: value for key, value in known.items() if value is not None}
    members.update({key: value for key, value in unknown.items() if key not in known})
    return members


def json_bytes(members: Mapping[str, Json]) -> bytes:
    """Write a JSON object as Java's printer does: UTF-8, no blanks."""
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - _AROUND) : error.end + _AROUND]
        raise InvalidInputError(
            f"Half a character (U+{ord(text[error.start]):04X}) stands in {around!a}; that is "
            "no text. Correct it.",
            kind="half-character",
        ) from None


def json_object(data: bytes, path: str) -> dict[str, Json]:
    try:
        parsed = json.loads(data)
        if b"\\u" in data:  # half a character is legal JSON, and no text
            json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"not JSON ({error})") from error
    if not isinstance(parsed, dict):
        raise _damaged(path, "not a JSON object")
    return parsed


def _damaged(path: str, what: str) -> FormatError:
    return FormatError(f"{path}: {what}.", kind="metadata-json", details={"path": path})


class _Members:
    """The members of one JSON object, taken one by one; the rest is unknown to this engine."""

    def __init__(self, members: dict[str, Json], path: str) -> None:
        self.path = path
        self._left = members

    def damaged(self, what: str) -> FormatError:
        return _damaged(self.path, what)

    def version(self, newest: int, noun: str) -> int:
        """Take `version`; very old files have none."""
        version = self.optional("version", self.integer)
        version = 1 if version is None else version
        if version > newest:
            raise UnsupportedFeatureError(
                f"{self.path}: {noun} version {version} is newer than {newest}, the newest this "
                "engine reads.",
                kind=f"{noun}-version",
                details={"path": self.path, "version": version},
            )
        return version

    def required(self, key: str) -> Json:
        """Take a member that must be there and not null."""
        value = self._left.pop(key, None)
        if value is None:
            raise self.damaged(f"member '{key}' is missing")
        return value

    def _expected(self, key: str, value: Json, noun: str) -> FormatError:
        return self.damaged(f"member '{key}' is {value!r} instead of {noun}")

    def integer(self, key: str) -> int:
        """Take a 64-bit integer."""
        value = self.required(key)
        if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
            raise self._expected(key, value, "a 64-bit integer")
        return value

    def text(self, key: str) -> str:
        value = self.required(key)
        if not isinstance(value, str):
            raise self._expected(key, value, "a text")
        return value

    def file_name(self, key: str) -> str:
        """Take the name of a file, which is one part of a path."""
        try:
            return plain_name(self.text(key))
        except ValueError as error:
            raise self.damaged(f"member '{key}': {error}") from error

    def optional(self, key: str, take: Callable[[str], T]) -> T | None:
        return None if self._absent(key) else take(key)

    def items(self, key: str) -> list[Json]:
        value = self.required(key)
        if not isinstance(value, list):
            raise self._expected(key, value, "a list")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """Take a list of texts; absent is empty."""
        value = [] if self._absent(key) else self.items(key)
        if not _all_texts(value):
            raise self._expected(key, value, "a list of texts")
        return tuple(value)

    def texts(self, key: str) -> dict[str, str]:
        """Take an object of texts; absent is empty."""
        value = {} if self._absent(key) else self.required(key)
        if not isinstance(value, dict) or not _all_texts(list(value.values())):
            raise self._expected(key, value, "an object of texts")
        return cast("dict[str, str]", value)

    def rest(self) -> dict[str, Json]:
        """Return the members that were not taken."""
        return self._left

    def _absent(self, key: str) -> bool:
        if self._left.get(key) is None:
            self._left.pop(key, None)
            return True
        return False


def _all_texts(values: list[Json]) -> TypeGuard[list[str]]:
    return all(isinstance(value, str) for value in values)


_COLUMN = {
    "colId": "column_id",
    "distinctCount": "distinct_count",
    "min": "minimum",
    "max": "maximum",
    "nullCount": "null_count",
    "avgLen": "average_length",
    "maxLen": "maximum_length",
}
"""Member → attribute of a column's statistics."""


def statistics_to_json(statistics: Statistics) -> bytes:
    """Write statistics; unknown ones are left out."""
    columns: dict[str, Json] = {
        column: _written({key: getattr(known, name) for key, name in _COLUMN.items()}, {})
        for column, known in statistics.columns.items()
    }
    members: dict[str, Json] = {
        "snapshotId": statistics.snapshot_id,
        "schemaId": statistics.schema_id,
        "mergedRecordCount": statistics.merged_record_count,
        "mergedRecordSize": statistics.merged_record_size,
        "colStats": columns,
    }
    return json.dumps(_written(members, {}), ensure_ascii=False).encode()


_CREATE_TIME = "tagCreateTime"
_TIME_RETAINED = "tagTimeRetained"
_LEAST_PARTS, _MOST_PARTS = 5, 7


def tag_from_json(name: str, data: bytes, path: str) -> Tag:
    snapshot = snapshot_from_json(data, path)
    others = dict(snapshot.unknown)
    try:
        created = _local_time(others.pop(_CREATE_TIME, None))
        retained = _duration(others.pop(_TIME_RETAINED, None))
    except (TypeError, ValueError, OverflowError) as error:
        raise FormatError(
            f"{path}: the tag's times are damaged ({error}).",
            kind="metadata-json",
            details={"path": path},
        ) from error
    snapshot = replace(snapshot, unknown=others)
    return Tag(name=name, snapshot=snapshot, create_time=created, time_retained=retained)


def tag_to_json(tag: Tag) -> bytes:
    members: dict[str, Json] = dict(tag.snapshot.unknown)
    if tag.create_time is not None and tag.time_retained is not None:
        at = tag.create_time
        time = [at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond * 1000]
        members[_CREATE_TIME] = list[Json](time)
        members[_TIME_RETAINED] = tag.time_retained.total_seconds()
    return snapshot_to_json(replace(tag.snapshot, unknown=members))


def _local_time(value: Json) -> dt.datetime | None:
    if value is None:
        return None
    if isinstance(value, str):
        return dt.datetime.fromisoformat(value)
    if not isinstance(value, list) or not _LEAST_PARTS <= len(value) <= _MOST_PARTS:
        raise ValueError("expected [year, month, day, hour, minute, second, nanoseconds]")
    parts = [part for part in value if isinstance(part, int)]
    if len(parts) != len(value):
        raise ValueError("expected whole numbers")
    year, month, day, hour, minute, second, nanos = [*parts, 0, 0][:_MOST_PARTS]
    return dt.datetime(year, month, day, hour, minute, second, nanos // 1000)  # noqa: DTZ001


def _duration(value: Json) -> dt.timedelta | None:
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise TypeError("expected seconds")
    return None if value is None else dt.timedelta(seconds=value)
