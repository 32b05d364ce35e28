"""Publish documents: write their files, then the hint that readers follow, then delete old ones."""

import json
from bisect import bisect
from collections.abc import Mapping

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.publishing import publish_once
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.values import Value
from paimon_assets.iceberg import options as ice
from paimon_assets.iceberg import state
from paimon_assets.iceberg.manifest_files import ManifestFiles
from paimon_assets.iceberg.table_schema import JsonObject


class Publisher(Value):
    """Publishes the documents of a table, and deletes files that no reader needs any more."""

    files: ManifestFiles
    replaces: bool
    """Whether a document takes the place of one of its snapshot, and leftovers are looked for."""

    @property
    def store(self) -> FileStore:
        return self.files.table.store

    @property
    def file_io(self) -> FileIO:
        return self.store.file_io

    @property
    def directory(self) -> str:
        return self.files.table.metadata_directory

    def publish(
        self, document: JsonObject, snapshot: Snapshot, before: state.IcebergMetadata | None
    ) -> state.IcebergMetadata:
        """Store the document of a snapshot unless there is one; return the stored one.

        Only the one `before` is replaced: a faster one has given the same ids to other rows.
        If no answer came, it may be there: nothing that it names is deleted.
        """
        path = state.metadata_path(self.directory, snapshot.id)
        data = json.dumps(document, separators=(",", ":")).encode()
        is_known = self.replaces and before is not None and before.version == snapshot.id
        if is_known or not publish_once(self.file_io, path, data):
            there = state.read_metadata(self.file_io, self.directory, snapshot.id)
            if not is_known and there is not None and there.shows(snapshot):
                self.files.delete(self.files.written)
                return there
            self.file_io.replace(path, data)
        return state.IcebergMetadata(location=path, version=snapshot.id, document=document)

    def point_to(self, version: int) -> bool:
        """Write the hint, or to a later document that a faster writer made meanwhile.

        The last writer of the hint looks again, so it leads to the newest document in the end.
        Where documents are deleted, the next one may be gone, too: few are left, and are listed.
        Documents of snapshots that a rollback undid are deleted.

        Returns:
            Whether to follow again. A rollback undid the snapshot, or deleted its document; or a
            snapshot has the number of a deleted document: a commit may have published its own
            between the look and the deletion, and it is gone.
        """
        write = self.file_io.replace if self.replaces else self.file_io.write_hint
        lists = [self.directory] if self.replaces or self._deletes else []
        while True:
            write(f"{self.directory}/{state.HINT_NAME}", str(version).encode())
            path, following = (state.metadata_path(self.directory, version + n) for n in (0, 1))
            reads, files = (path, self.store.paths.snapshot(version)), () if lists else (following,)
            with self.file_io.ahead(reads=reads, files=files, lists=lists):
                is_overtaken = not self._is_shown(version)
                if not lists and not self.file_io.exists(following):
                    return is_overtaken
                listed = state.versions(self.file_io, self.directory)
            later = [each for each in listed if each > version]
            newest = max(filter(self._is_shown, later), default=None)
            if newest is None:
                break
            version = newest
        self.files.delete(state.metadata_path(self.directory, each) for each in later)
        return is_overtaken or any(map(self.store.snapshots.snapshot_or_none, later))

    def _is_shown(self, version: int) -> bool:
        """Whether a document is that of a snapshot of the table."""
        snapshot = self.store.snapshots.snapshot_or_none(version)
        found = state.read_metadata(self.file_io, self.directory, version)
        return snapshot is not None and found is not None and found.shows(snapshot)

    @property
    def _deletes(self) -> bool:
        return self.files.table.schema.typed_options.get(ice.ICEBERG_DELETE_AFTER_COMMIT)

    def clean(self, done: state.IcebergMetadata, before: state.IcebergMetadata) -> None:
        """Delete the oldest documents, and the lists and manifests of snapshots that went.

        A later document is not deleted: a rollback undid its snapshot, and since then a commit may
        have published another one of that version. `point_to` looks at it.
        """
        if not self._deletes:
            return
        kept = {each["metadata-file"] for each in done.document["metadata-log"]}
        log = before.document.get("metadata-log") or ()
        old = [*(each["metadata-file"] for each in log), before.location]
        self.files.delete(
            path
            for path in old
            if path not in kept and (state.version_of(path) or 0) < done.version
        )
        lists, kept_lists = _lists(before, done.version), _lists(done, done.version)
        went = {number: path for number, path in lists.items() if path != kept_lists.get(number)}
        # The files of an abandoned history stay as orphans: readers may still use them.
        if went and kept_lists.items() & lists.items():
            self._delete_lists(went, kept_lists)

    def _delete_lists(self, went: Mapping[int, str], kept: Mapping[int, str]) -> None:
        """Delete the lists of snapshots, and the manifests that only they name.

        A manifest is in the lists of successive snapshots, so the nearest ones on both sides tell.
        """
        numbers, near = sorted(kept), set[int]()
        for number in went:
            at = bisect(numbers, number)
            near.update(numbers[max(at - 1, 0) : at + 1])
        needed = {
            manifest["manifest_path"]
            for number in near
            for manifest in self.files.read_list(kept[number])
        }
        for path in went.values():
            try:
                named = [each["manifest_path"] for each in self.files.read_list(path)]
            except NotFoundError:
                continue
            self.files.delete([*(each for each in named if each not in needed), path])


def _lists(metadata: state.IcebergMetadata, most: int) -> dict[int, str]:
    """Return snapshot → list, of snapshots up to a number."""
    listed = metadata.document.get("snapshots") or ()
    return {
        each["snapshot-id"]: each["manifest-list"] for each in listed if each["snapshot-id"] <= most
    }
