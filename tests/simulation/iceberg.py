"""Iceberg's metadata beside the model: checks of each document that is published."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow.parquet as pq

from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.iceberg.state import IDENTITY, PENDING, identity_of
from tests.simulation.store import Store

_ADDED, _DELETED = 1, 2
HINT = "version-hint.text"


@dataclass(slots=True)
class Documents:
    """The documents of a storage, each looked at when it was published."""

    store: Store
    path_of: Callable[[str], str]
    """Location in a document → path on the storage."""
    row_ids: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """(table, commit) → the row ids that it got."""

    def read(self, path: str) -> dict[str, Any]:
        return dict(json.loads(self.store.file(path).data))

    def hint_target(self, folder: str) -> dict[str, Any] | None:
        """Return the document that readers are led to; None without any."""
        try:
            version = self.store.file(f"{folder}/{HINT}").data.decode()
            return self.read(f"{folder}/v{version}.metadata.json") if version else None
        except FileNotFoundError:
            return None

    def check(
        self, path: str, snapshots: Mapping[int, Snapshot], *, are_undone: bool, is_erasing: bool
    ) -> list[tuple[Any, Any]] | None:
        """Raise if a document is wrong; return the rows it shows, if it can show them all.

        `snapshots` are those of its table that are there, by id. Followers of a rollback and of a
        commit beside it both go on with the document of before, and may give the same ids of rows.
        """
        document = self.read(path)
        listed = document["snapshots"]
        for name in ("snapshot-id", "sequence-number"):
            numbers = [each[name] for each in listed]
            assert numbers == sorted(set(numbers)), f"{path} has the {name}s {numbers}"
        newest = listed[-1]
        assert newest["snapshot-id"] == document["current-snapshot-id"], f"{path} shows another"
        if is_erasing:  # its followers go on from documents of before
            return None
        shown = [each for each in listed if is_of(each, snapshots.get(each["snapshot-id"]))]
        for each in shown if newest in shown else ():  # else undone: its follower looks again
            missing = [file for file in self.needed_files(each) if not self.store.has(file)]
            assert not missing, f"snapshot {each['snapshot-id']} of {path} lacks {missing}"
        if self._is_newest(path) and not are_undone:
            self._check_row_ids(path, document)
        if newest not in shown or newest["summary"].get(PENDING, "0") != "0":
            return None
        return sorted(self._rows(newest))

    def needed_files(self, snapshot: Mapping[str, Any]) -> Iterator[str]:
        """Yield the files of a snapshot; its manifests are read only if they are there."""
        yield self.path_of(snapshot["manifest-list"])
        for manifest in self._records(snapshot["manifest-list"]):
            yield self.path_of(manifest["manifest_path"])
            yield from (path for path, _ in self._files(manifest["manifest_path"]))

    def _is_newest(self, path: str) -> bool:
        """Whether it leads readers; a slow follower leads them back to a later one at once."""
        folder = path.rpartition("/")[0]
        paths = (each for each, _ in self.store.below(folder) if each.endswith(".metadata.json"))
        return path == max(paths, key=version_of)

    def _check_row_ids(self, path: str, document: Mapping[str, Any]) -> None:
        """Raise if two commits got the same ids of rows."""
        for each in document["snapshots"]:
            start, count = each["first-row-id"], each["added-rows"]
            assert start + count <= document["next-row-id"], f"{path} gives ids of rows twice"
            key = document["table-uuid"], each["summary"][IDENTITY]
            for other, (first, size) in self.row_ids.items():
                is_disjoint = start + count <= first or first + size <= start
                assert other[0] != key[0] or other == key or is_disjoint or not count or not size, (
                    f"{path} gives {key} ids of rows that {other} has"
                )
            self.row_ids[key] = start, count

    def _rows(self, snapshot: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
        for manifest in self._records(snapshot["manifest-list"]):
            for path, count in self._files(manifest["manifest_path"]):
                data = pq.read_table(io.BytesIO(self.store.file(path).data), columns=["id", "v"])
                assert data.num_rows == count, f"{path} has {data.num_rows} rows, not {count}"
                yield from zip(data["id"].to_pylist(), data["v"].to_pylist(), strict=True)

    def _files(self, manifest: str) -> Iterator[tuple[str, int]]:
        for entry in self._records(manifest):
            if entry["status"] != _DELETED:
                file = entry["data_file"]
                yield self.path_of(file["file_path"]), file["record_count"]

    def _records(self, location: str) -> Iterator[Any]:
        path = self.path_of(location)
        if self.store.has(path):
            yield from fastavro.reader(io.BytesIO(self.store.file(path).data))


def version_of(path: str) -> int:
    return int(path.rpartition("/")[2].removeprefix("v").partition(".")[0])


def is_of(listed: Mapping[str, Any], snapshot: Snapshot | None) -> bool:
    """Whether a snapshot of a document shows one of Paimon's."""
    return snapshot is not None and listed["summary"].get(IDENTITY) == identity_of(snapshot)
