"""The state of a table's Iceberg metadata: its newest document, and how far it is behind."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.numbered_files import (
    number_of,
    prefixed_files,
    read_or_none,
)
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.segments.segment import is_within
from paimon_assets.engine.spec.values import Value
from paimon_assets.iceberg.rules import has_iceberg
from paimon_assets.iceberg.table_schema import JsonObject, metadata_directory

logger = logging.getLogger(__name__)

WRITER = "paimon-assets.iceberg"
"""Property of documents that this engine wrote; it continues only these."""
CREATED = "paimon-assets.created-ms"
"""Property: when the table was created, so that another one of its name is known."""
HINT_NAME = "version-hint.text"
IDENTITY = "paimon-commit-identity"
"""Member of a summary: the commit that the snapshot shows, as Java names it."""
PENDING = "paimon-assets.pending-files"
"""Member of a summary: live files that wait for a compaction."""
_SUFFIX = ".metadata.json"


class IcebergMetadata(Value):
    location: str
    """Path of its file."""
    version: int
    """The snapshot of Paimon in its name."""
    document: JsonObject

    @property
    def snapshot(self) -> JsonObject | None:
        """The current snapshot, None if it names none that it lists."""
        return self.snapshot_of(self.document.get("current-snapshot-id"))

    def snapshot_of(self, snapshot_id: Any) -> JsonObject | None:
        listed = self.document.get("snapshots") or ()
        return next((each for each in listed if each["snapshot-id"] == snapshot_id), None)

    def shows(self, snapshot: Snapshot) -> bool:
        """Whether it was made of this very snapshot; ids are used again after a rollback."""
        shown = self.snapshot_of(snapshot.id)
        return shown is not None and shown["summary"].get(IDENTITY) == identity_of(snapshot)


class IcebergState(Value):
    """How far Iceberg's readers are behind Paimon's."""

    metadata: IcebergMetadata | None
    """None if there is none yet."""
    behind: int
    """Commits that they do not see, or not in full, because files wait for a compaction."""

    def __str__(self) -> str:
        return "up to date" if self.behind == 0 else f"{self.behind} commits behind"


def identity_of(snapshot: Snapshot) -> str:
    """Return the identity of a commit, as Java defines it."""
    if snapshot.uuid is not None:
        return snapshot.uuid
    return f"{snapshot.commit_user}:{snapshot.commit_identifier}:{snapshot.time_millis}"


def writes_iceberg(store: FileStore) -> bool:
    """Whether commits to a store write Iceberg metadata: branches have none."""
    return store.paths.branch == MAIN_BRANCH and has_iceberg(store.schema.typed_options)


def metadata_path(directory: str, version: int) -> str:
    return f"{directory}/v{version}{_SUFFIX}"


def version_of(path: str) -> int | None:
    """Return the version in the name of a metadata file; None of another file."""
    name = path.rpartition("/")[2]
    if not (name.startswith("v") and name.endswith(_SUFFIX)):
        return None
    return number_of(name.removeprefix("v").removesuffix(_SUFFIX))


def versions(file_io: FileIO, directory: str) -> list[int]:
    """Return the versions of all metadata files, ascending. Cost: one listing."""
    numbers = (version_of(f"v{name}") for name in prefixed_files(file_io, directory, "v"))
    return sorted(number for number in numbers if number is not None)


def read_metadata(file_io: FileIO, directory: str, version: int) -> IcebergMetadata | None:
    """Read one version; None if there is no such file, or its content is invalid."""
    path = metadata_path(directory, version)
    data = read_or_none(file_io, path)
    if data is None:
        return None
    try:
        document = _check_document(json.loads(data))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        logger.warning("'%s' is no metadata of Iceberg: %s", path, error)
        return None
    return IcebergMetadata(location=path, version=version, document=document)


def _check_document(document: Any) -> JsonObject:
    if not isinstance(document, Mapping) or "format-version" not in document:
        raise ValueError("it has no format-version")
    for snapshot in document.get("snapshots") or ():
        _ = snapshot["snapshot-id"], snapshot["summary"].items(), snapshot["manifest-list"]
    return dict(document)


def newest_metadata(store: FileStore) -> IcebergMetadata | None:
    """Return the newest metadata of a table; None if it has none.

    Cost: the hint and the document are read; a listing if the hint leads nowhere.
    """
    directory = metadata_directory(store)
    hint = read_or_none(store.file_io, f"{directory}/{HINT_NAME}")
    version = None if hint is None else number_of(hint.decode(errors="replace").strip())
    found = None if version is None else read_metadata(store.file_io, directory, version)
    if found is not None:
        return found
    for number in reversed(versions(store.file_io, directory)):
        found = read_metadata(store.file_io, directory, number)
        if found is not None:
            return found
    return None


def _of_this_table(store: FileStore, found: IcebergMetadata) -> bool:
    """Whether metadata is a table's own; outside its folder it may be of one that had its name."""
    if is_within(found.location, store.table_path):
        return True
    created = (found.document.get("properties") or {}).get(CREATED)
    if created is not None:
        return bool(created == str(store.created_ms))
    snapshot = store.snapshots.snapshot_or_none(found.version)
    return snapshot is not None and found.shows(snapshot)


def iceberg_state(store: FileStore) -> IcebergState | None:
    """Return how far Iceberg is behind; None if the table has no Iceberg metadata to write."""
    if not writes_iceberg(store):
        return None
    newest, found = store.snapshots.latest(), newest_metadata(store)
    if found is not None and not _of_this_table(store, found):
        found = None
    if newest is None:
        return IcebergState(metadata=found, behind=0)
    if found is None:
        return IcebergState(
            metadata=None, behind=newest.id - (store.snapshots.earliest_id() or 1) + 1
        )
    if found.version > newest.id or (found.version == newest.id and not found.shows(newest)):
        return IcebergState(metadata=found, behind=1)  # a rollback was not followed yet
    behind = newest.id - found.version
    for snapshot in reversed(found.document["snapshots"]):
        if snapshot["summary"].get(PENDING, "0") == "0":
            break
        behind += 1
    return IcebergState(metadata=found, behind=behind)
