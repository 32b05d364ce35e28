"""Tags: names of snapshots, which keep them from expiring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot

if TYPE_CHECKING:
    import datetime as dt

    from paimon_assets.engine.control.file_store import FileStore
    from paimon_assets.engine.control.maintenance.tag_files import DeletedTag
    from paimon_assets.engine.spec.metadata.tag import Tag


class Tags:
    """The tags of a table."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def create(
        self,
        name: str,
        snapshot: Snapshot | int | None = None,
        *,
        time_retained: dt.timedelta | None = None,
        ignore_if_exists: bool = False,
    ) -> Tag:
        """Give a snapshot a name.

        Args:
            name: The tag's name.
            snapshot: The snapshot, or its id; the newest by default.
            time_retained: How long the tag is kept; for ever by default.
            ignore_if_exists: Whether a tag of this name is left as it is and returned.

        Raises:
            NotFoundError: There is no such snapshot, or none at all.
            AlreadyExistsError: There is a tag of this name.
            InvalidInputError: The name or the time is not valid.
            CommitUnknownError: The storage's answer was lost; look whether the tag is there.
        """
        return self._store.tags.create(
            name,
            self._snapshot(snapshot),
            time_retained=time_retained,
            ignore_if_exists=ignore_if_exists,
        )

    def replace(
        self,
        name: str,
        snapshot: Snapshot | int | None = None,
        *,
        time_retained: dt.timedelta | None = None,
    ) -> Tag:
        """Let a tag name another snapshot; the newest by default.

        Raises:
            NotFoundError: There is no such tag or snapshot.
            InvalidInputError: The time is not above zero.
        """
        return self._store.tags.replace(name, self._snapshot(snapshot), time_retained=time_retained)

    def rename(self, name: str, new_name: str) -> Tag:
        """Give a tag another name; after a crash it may have both.

        Raises:
            NotFoundError: There is no such tag.
            AlreadyExistsError: There is a tag of the new name.
            InvalidInputError: The new name is not valid.
        """
        return self._store.tags.rename(name, new_name)

    def delete(self, name: str) -> DeletedTag:
        """Delete a tag, with the files that only it kept.

        Raises:
            NotFoundError: There is no tag of this name.
            InvalidInputError: The tag keeps segment files from other engines (kind `tag-hold`).
        """
        from paimon_assets.engine.control.maintenance.tag_files import delete_tag

        return delete_tag(self._store, name)

    def get(self, name: str) -> Tag:
        """Return a tag.

        Raises:
            NotFoundError: There is no tag of this name.
        """
        return self._store.tags.get(name)

    def get_or_none(self, name: str) -> Tag | None:
        """Return a tag, None if there is none of this name."""
        return self._store.tags.get_or_none(name)

    def list(self) -> list[Tag]:
        """Return all tags, by name. Cost: one listing, and each is read."""
        return self._store.tags.list()

    def _snapshot(self, snapshot: Snapshot | int | None) -> Snapshot:
        if isinstance(snapshot, Snapshot):
            return snapshot
        if snapshot is not None:
            return self._store.snapshots.snapshot(snapshot)
        newest = self._store.snapshots.latest()
        if newest is None:
            raise NotFoundError(
                f"Table '{self._store.label}' has no snapshot to tag yet.",
                kind="snapshot-not-found",
                details={"table": self._store.label},
            )
        return newest
