"""TagManager: the `tag-<name>` files of a branch.

Deleting a tag deletes its file alone; `maintenance.tag_files` deletes the files that only it kept.
Source: `org.apache.paimon.utils.TagManager`.
"""

import datetime as dt
from collections.abc import Callable

from paimon_assets.engine.codec.json.metadata_json import (
    snapshot_to_json,
    tag_from_json,
    tag_to_json,
)
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.managers.numbered_files import (
    check_file_name,
    known_file_name,
    prefixed_files,
    read_or_none,
)
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.control.publishing import published
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.snapshot import Snapshot, Tag
from paimon_assets.engine.spec.paths import TAG_PREFIX, TablePaths


class TagManager:
    """Tags of one branch of a table."""

    def __init__(self, file_io: FileIO, paths: TablePaths, *, clock: Clock | None = None) -> None:
        self._file_io = file_io
        self._paths = paths
        self._clock = clock or SystemClock()
        self._snapshots = SnapshotManager(file_io, paths)

    def create(
        self,
        name: str,
        snapshot: Snapshot,
        *,
        time_retained: dt.timedelta | None = None,
        ignore_if_exists: bool = False,
    ) -> Tag:
        """Give a snapshot a name."""
        tag = self._new(name, snapshot, time_retained)
        if published(self._file_io, self._paths.tag(name), tag_to_json(tag)):
            if not self._snapshots.is_same(snapshot):
                self._file_io.delete_file(self._paths.tag(name))
                raise self._expired(name, snapshot)
            return tag
        if ignore_if_exists:
            return self.get(name)
        raise self._taken(name)

    def hold(self, name: str, snapshot: Snapshot) -> None:
        """Keep a snapshot by a tag; one of that name stays as it is."""
        published(self._file_io, self._paths.tag(name), snapshot_to_json(snapshot))

    def replace(
        self, name: str, snapshot: Snapshot, *, time_retained: dt.timedelta | None = None
    ) -> Tag:
        """Let a tag name another snapshot."""
        before = self.get(name)
        tag = self._new(name, snapshot, time_retained)
        self._file_io.replace(self._paths.tag(name), tag_to_json(tag))
        if not self._snapshots.is_same(snapshot):
            self._file_io.replace(self._paths.tag(name), tag_to_json(before))
            raise self._expired(name, snapshot)
        return tag

    def rename(self, name: str, new_name: str) -> Tag:
        """Give a tag another name; after a crash it may have both."""
        check_file_name("tag", new_name)
        self.get(name)
        data = self._file_io.read_bytes(self._paths.tag(name))
        if not published(self._file_io, self._paths.tag(new_name), data):
            raise self._taken(new_name)
        self._file_io.delete_file(self._paths.tag(name))
        return self.get(new_name)

    def delete(self, name: str) -> Tag:
        """Delete a tag's file and return its snapshot; data files stay."""
        tag = self.get(name)
        self._file_io.delete_file(self._paths.tag(name))
        return tag

    def get(self, name: str) -> Tag:
        """Return a tag."""
        tag = self.get_or_none(name)
        if tag is None:
            raise NotFoundError(
                f"Table '{self._paths.table}' has no tag '{name}'.",
                kind="tag-not-found",
                details={"path": self._paths.table, "tag": name},
            )
        return tag

    def get_or_none(self, name: str) -> Tag | None:
        """Return a tag, None if there is none of this name."""
        path = self._paths.tag(known_file_name("tag", name))
        data = read_or_none(self._file_io, path)
        return None if data is None else tag_from_json(name, data, path)

    def list(self) -> list[Tag]:
        """Return all tags, by name. Cost: one listing, and each is read."""
        names = prefixed_files(self._file_io, self._paths.tag_directory, TAG_PREFIX)
        return [tag for name in names if (tag := self.get_or_none(name)) is not None]

    def delete_after(
        self, snapshot_id: int, *, keep: Callable[[Snapshot], bool] = lambda _: False
    ) -> tuple[str, ...]:
        """Delete the tags of later snapshots, but for those to keep, and return their names."""
        tags = sorted(self.list(), key=lambda tag: -tag.snapshot.id)
        later = [tag for tag in tags if tag.snapshot.id > snapshot_id and not keep(tag.snapshot)]
        for tag in later:
            self._file_io.delete_file(self._paths.tag(tag.name))
        return tuple(tag.name for tag in later)

    def _new(self, name: str, snapshot: Snapshot, time_retained: dt.timedelta | None) -> Tag:
        check_file_name("tag", name)
        if time_retained is None:
            return Tag(name=name, snapshot=snapshot)
        if time_retained <= dt.timedelta():
            raise InvalidInputError(
                f"Tag '{name}' would be kept for {time_retained}; give a time above zero.",
                kind="tag-time",
            )
        now = dt.datetime.fromtimestamp(self._clock.now_millis() / 1000, dt.UTC)
        local = now.astimezone().replace(tzinfo=None)
        return Tag(name=name, snapshot=snapshot, create_time=local, time_retained=time_retained)

    def _expired(self, name: str, snapshot: Snapshot) -> NotFoundError:
        return NotFoundError(
            f"Snapshot {snapshot.id} of table '{self._paths.table}' expired, or was undone, while "
            f"it was given the name '{name}'; name another one.",
            kind="snapshot-not-found",
            details={"path": self._paths.table, "tag": name, "snapshot_id": snapshot.id},
        )

    def _taken(self, name: str) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"Table '{self._paths.table}' has a tag '{name}' already.",
            kind="tag-exists",
            details={"path": self._paths.table, "tag": name},
        )
