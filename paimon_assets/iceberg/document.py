"""The metadata document: from one to the next, with its snapshots, tags and retention.

The history is shorter than Paimon's: each commit writes a whole document, so it lists the newest
snapshots, and those of tags.
Source: https://iceberg.apache.org/spec/#table-metadata-fields
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from paimon_assets.engine.spec.values import Value
from paimon_assets.iceberg import options as ice
from paimon_assets.iceberg.state import CREATED, IcebergMetadata, metadata_path
from paimon_assets.iceberg.table_schema import IcebergTable, JsonObject
from paimon_assets.iceberg.types import iceberg_ids

TOP_LEVEL = "paimon-assets.top-level"
"""Property: the level from which on files of a primary-key table are shown."""
FORM = "1"
MOST_SNAPSHOTS = 100
_NAME_MAPPING = "schema.name-mapping.default"


class DocumentDraft(Value):
    """A document to be written."""

    table: IcebergTable
    base: IcebergMetadata | None
    """The document whose history it continues; None starts a new history."""
    replaced: IcebergMetadata | None
    """The newest document so far: its ids are not used again."""
    added: Sequence[JsonObject]
    """Snapshots after those of the base."""
    tags: Mapping[str, int]
    """Tag → snapshot."""
    next_row_id: int
    earliest_id: int
    """Older snapshots are gone, but for those of tags."""
    properties: Mapping[str, str]

    def document(self) -> JsonObject:
        table, base = self.table, self.base
        before = {} if base is None else base.document
        last = self.replaced
        identity = None if last is None or not self._is_own(last) else last.document
        snapshots = self._snapshots()
        schemas, current = self._schemas(before, {each["schema-id"] for each in snapshots})
        newest = snapshots[-1]
        log = self._log(before, {each["snapshot-id"] for each in snapshots})
        ids = (number for schema in schemas for number in iceberg_ids(schema["fields"]))
        document: JsonObject = {
            "format-version": table.format_version,
            "table-uuid": str(uuid4()) if identity is None else identity["table-uuid"],
            "location": table.store.table_path,
            "last-sequence-number": newest["sequence-number"],
            "last-updated-ms": log[-1]["timestamp-ms"],
            "last-column-id": max(*ids, 0, int((identity or {}).get("last-column-id", 0))),
            "current-schema-id": current["schema-id"],
            "schemas": schemas,
            "default-spec-id": 0,
            "partition-specs": [table.partition_spec],
            "last-partition-id": table.last_partition_id,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {**self.properties, _NAME_MAPPING: self._name_mapping()},
            "current-snapshot-id": newest["snapshot-id"],
            "refs": self._refs(snapshots),
            "snapshots": snapshots,
            "statistics": [],
            "partition-statistics": [],
            "snapshot-log": log,
            "metadata-log": self._metadata_log(newest["snapshot-id"]),
        }
        if table.format_version >= 3:
            document["next-row-id"] = self.next_row_id
        return document

    def _is_own(self, before: IcebergMetadata, *, or_unmarked: bool = False) -> bool:
        """Whether a document is of this table, not of a dropped one; Java's have no such mark."""
        created = (before.document.get("properties") or {}).get(CREATED)
        return created == self.properties[CREATED] or (or_unmarked and created is None)

    def _snapshots(self) -> list[JsonObject]:
        listed = [] if self.base is None else list(self.base.document["snapshots"])
        listed += self.added
        named = set(self.tags.values())
        young = {each["snapshot-id"] for each in listed[-MOST_SNAPSHOTS:]}
        newest = listed[-1]["snapshot-id"]
        kept = []
        for each in listed:
            number = each["snapshot-id"]
            if (
                number in named
                or number == newest
                or (number in young and number >= self.earliest_id)
            ):
                kept.append(each)
        return kept

    def _schemas(self, before: JsonObject, used: set[int]) -> tuple[list[JsonObject], JsonObject]:
        """Return the schemas of the snapshots, and the current one.

        A column that ever held nulls stays optional: old files may have some.
        """
        table, known = self.table, {}
        for each in before.get("schemas") or ():
            known[each["schema-id"]] = each
        shown = known.get(before.get("current-schema-id", -1))
        if shown is not None:
            required = {each["id"] for each in shown["fields"] if each["required"]}
            if shown["schema-id"] != table.schema.id:
                required &= _not_null(table)
        else:
            required = _not_null(table)
            for number in range(table.schema.id):
                older = table.store.schemas.schema_or_none(number)
                if older is not None:
                    strict = {each.id for each in older.fields if not each.type.nullable}
                    required &= strict
        current = table.schema_json(required)
        known[table.schema.id] = current
        for number in used - known.keys():
            known[number] = IcebergTable.of(table.store, number).schema_json(required)
        numbers = sorted(used | {table.schema.id})
        return [known[number] for number in numbers], current

    def _refs(self, snapshots: Sequence[JsonObject]) -> JsonObject:
        listed = {each["snapshot-id"] for each in snapshots}
        refs: JsonObject = {
            name: {"snapshot-id": number, "type": "tag"}
            for name, number in self.tags.items()
            if number in listed and name != "main"
        }
        refs["main"] = {"snapshot-id": snapshots[-1]["snapshot-id"], "type": "branch"}
        return refs

    def _log(self, before: JsonObject, listed: set[int]) -> list[JsonObject]:
        """Return when each snapshot became current; clocks of writers may differ, this does not."""
        log = [each for each in before.get("snapshot-log") or () if each["snapshot-id"] in listed]
        for each in self.added:
            last = log[-1]["timestamp-ms"] if log else 0
            entry = {
                "snapshot-id": each["snapshot-id"],
                "timestamp-ms": max(last, each["timestamp-ms"]),
            }
            if each["snapshot-id"] in listed:
                log.append(entry)
        return log

    def _metadata_log(self, version: int) -> list[JsonObject]:
        last = self.replaced
        if last is None or last.version > version:  # documents that a rollback undid are deleted
            last = self.base
        if last is None or not self._is_own(last, or_unmarked=True):
            return []
        log = list(last.document.get("metadata-log") or ())
        if last.version != version:
            time_ms = last.document.get("last-updated-ms", 0)
            log.append({"timestamp-ms": time_ms, "metadata-file": last.location})
        directory = self.table.metadata_directory
        own = metadata_path(directory, version)
        log = [
            each
            for each in log
            if each["metadata-file"] != own and each["metadata-file"].startswith(f"{directory}/")
        ]
        most = self.table.schema.typed_options.get(ice.ICEBERG_PREVIOUS_VERSIONS_MAX)
        return log[len(log) - min(most, len(log)) :]

    def _name_mapping(self) -> str:
        """Return the names by which columns are found in files that have no ids."""
        return json.dumps(_map_fields(self.table.schema_json(())["fields"]))


def _not_null(table: IcebergTable) -> set[int]:
    return {each.id for each in table.schema.fields if not each.type.nullable}


def _map_fields(fields: Sequence[Any]) -> list[JsonObject]:
    mapped = []
    for each in fields:
        entry: JsonObject = {"field-id": each["id"], "names": [each["name"]]}
        inner = _inner(each["type"])
        if inner:
            entry["fields"] = inner
        mapped.append(entry)
    return mapped


def _inner(data_type: Any) -> list[JsonObject]:
    if not isinstance(data_type, dict):
        return []
    if data_type["type"] == "struct":
        return _map_fields(data_type["fields"])
    parts = [part for part in ("element", "key", "value") if part in data_type]
    fields = [
        {"id": data_type[f"{part}-id"], "name": part, "type": data_type[part]} for part in parts
    ]
    return _map_fields(fields)
