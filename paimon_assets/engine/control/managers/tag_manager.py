"""TagManager and ConsumerManager: the `tag-<name>` and `consumer-<id>` files of a branch.

Deleting a tag deletes its file alone; `maintenance.tag_files` deletes the files that only it kept.
A consumer's file holds the next snapshot it will read; snapshots from there on do not expire.
Source: `org.apache.paimon.utils.TagManager`, `org.apache.paimon.consumer.ConsumerManager`.
"""

import datetime as dt
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from msgspec import convert

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json import metadata_json
from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.managers.numbered_files import (
    check_file_name,
    known_file_name,
    prefixed_files,
    read_or_none,
)
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.control.publishing import publish_once
from paimon_assets.engine.fileio.atomic import temporary_name
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID, Snapshot, Tag
from paimon_assets.engine.spec.paths import CONSUMER_PREFIX, TAG_PREFIX, TablePaths

logger = logging.getLogger(__name__)
_MARKS = (".undo.", ".rollback-")
"""Prefixes of marks: of commands that delete or replace tags and snapshots."""
_REPLACE_TIME = dt.timedelta(days=2)
"""Longer than a replacement and the difference of two time zones: tags have local times."""


class TagManager:
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
        tag = self._new(name, snapshot, time_retained)
        if publish_once(self._file_io, self._paths.tag(name), metadata_json.tag_to_json(tag)):
            if not self._snapshots.has_its_files(snapshot):
                self._file_io.delete_file(self._paths.tag(name))
                raise self._expiry_error(name, snapshot)
            return tag
        if ignore_if_exists:
            return self.get(name)
        raise self._name_conflict(name)

    def hold(self, name: str, snapshot: Snapshot) -> None:
        """Keep a snapshot by a tag; one of that name stays as it is."""
        publish_once(self._file_io, self._paths.tag(name), metadata_json.snapshot_to_json(snapshot))

    def replace(
        self, name: str, snapshot: Snapshot, *, time_retained: dt.timedelta | None = None
    ) -> Tag:
        """Let a tag name another snapshot, which until then has a second tag to keep its files.

        A crash leaves the second tag, which expires.
        """
        tag = self._new(name, snapshot, time_retained)
        self.get(name)
        with self.undoing():
            path, before = self._paths.tag(name), self.get(name)
            second = self.create(f"{name}-{uuid4().hex}", snapshot, time_retained=_REPLACE_TIME)
            try:
                self._file_io.replace(path, metadata_json.tag_to_json(tag))
            finally:
                self._file_io.delete_file(self._paths.tag(second.name))
            is_expired = (self._snapshots.earliest_id() or 0) > snapshot.id
            if not is_expired and not self._snapshots.has_its_files(snapshot):  # it was undone
                self._file_io.replace(path, metadata_json.tag_to_json(before))
                raise self._expiry_error(name, snapshot)
        return tag

    def rename(self, name: str, new_name: str) -> Tag:
        """Give a tag another name; after a crash it may have both."""
        check_file_name("tag", new_name)
        path, new_path = self._paths.tag(name), self._paths.tag(new_name)
        self.get(name)
        with self.undoing():
            data = self._file_io.read_bytes(path)
            if not publish_once(self._file_io, new_path, data):
                raise self._name_conflict(new_name)
            is_same = read_or_none(self._file_io, path) == data
            self._file_io.delete_file(path if is_same else new_path)
        return self.get(new_name) if is_same else self.rename(name, new_name)

    def is_undoing(self) -> bool:
        """Whether a command runs in the block of `undoing`, or was killed there."""
        listed = self._file_io.list_directory(self._paths.tag_directory)
        return any(status.name.startswith(_MARKS) for status in listed)

    @contextmanager
    def undoing(self, name: str = "undo") -> Iterator[None]:
        """Delete or replace states in the block, beside no erasure: that might bring them back.

        This makes its mark and then looks for an erasure's journal; an erasure writes that and
        then looks for marks. So one of the two sees the other: this is refused, or that waits.
        """
        mark = f"{self._paths.tag_directory}/{temporary_name(name)}"
        self._file_io.write_bytes(mark, b"")
        try:
            listed = self._file_io.list_directory(self._paths.erase_directory)
            if any(status.name.startswith("erase-") for status in listed):
                raise errors.CommitConflictError(
                    f"Rows of table '{self._paths.label}' are being erased, so nothing was "
                    "changed. Try again later; if the erasure was killed, erase again first.",
                    kind="erase-runs",
                    path=self._paths.table,
                )
            yield
        finally:
            try:
                self._file_io.delete_file(mark)
            except errors.StorageError:
                logger.warning("table %s: '%s' is left", self._paths.label, mark, exc_info=True)

    def delete(self, name: str) -> Tag:
        """Delete a tag's file and return its snapshot; data files stay."""
        tag = self.get(name)
        self._file_io.delete_file(self._paths.tag(name))
        return tag

    def get(self, name: str) -> Tag:
        tag = self.get_or_none(name)
        if tag is None:
            path = self._paths.table
            message = f"Table '{self._paths.label}' has no tag '{name}'."
            raise errors.NotFoundError(message, kind="tag-not-found", path=path, tag=name)
        return tag

    def get_or_none(self, name: str) -> Tag | None:
        path = self._paths.tag(known_file_name("tag", name))
        data = read_or_none(self._file_io, path)
        if data is None:
            return None
        try:
            return metadata_json.tag_from_json(name, data, path)
        except errors.FormatError as error:
            # Its files stay: which ones a damaged tag holds is unknown.
            message = (
                f"{error.message} Restore the tag; if it never was one, move the file elsewhere."
            )
            raise errors.FormatError(message, kind=error.kind, path=path) from error

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
            message = f"Tag '{name}' would be kept for {time_retained}; give a time above zero."
            raise errors.InvalidInputError(message, kind="tag-time")
        now = dt.datetime.fromtimestamp(self._clock.now_millis() / 1000, dt.UTC)
        local = now.astimezone().replace(tzinfo=None)
        return Tag(name=name, snapshot=snapshot, create_time=local, time_retained=time_retained)

    def _expiry_error(self, name: str, snapshot: Snapshot) -> errors.NotFoundError:
        return errors.NotFoundError(
            f"Snapshot {snapshot.id} of table '{self._paths.label}' expired, was undone or erased "
            f"from while it was given the name '{name}'; name another one, or try again.",
            kind="snapshot-not-found",
            path=self._paths.table,
            tag=name,
            snapshot_id=snapshot.id,
        )

    def _name_conflict(self, name: str) -> errors.AlreadyExistsError:
        path = self._paths.table
        message = f"Table '{self._paths.label}' has a tag '{name}' already."
        return errors.AlreadyExistsError(message, kind="tag-exists", path=path, tag=name)


_NEXT_SNAPSHOT = "nextSnapshot"


class ConsumerManager:
    def __init__(self, file_io: FileIO, paths: TablePaths, *, clock: Clock | None = None) -> None:
        self._file_io = file_io
        self._paths = paths
        self._clock = clock or SystemClock()

    def next_snapshot(self, consumer_id: str) -> int | None:
        """Return the next snapshot a consumer will read, None if there is no such consumer."""
        path = self._path(consumer_id)
        data = read_or_none(self._file_io, path)
        if data is None:
            return None
        try:
            return convert(json.loads(data)[_NEXT_SNAPSHOT], int)
        except metadata_json.UNREADABLE as error:
            message = (
                f"{path}: not a consumer's file; expected '{_NEXT_SNAPSHOT}' and a number."
                " Correct it, or move the file elsewhere."
            )
            raise errors.FormatError(message, kind="metadata-json", path=path) from error

    def list(self) -> dict[str, int]:
        """Return consumer → next snapshot, by name. Cost: one listing, and each is read."""
        names = prefixed_files(self._file_io, self._paths.consumer_directory, CONSUMER_PREFIX)
        numbers = {name: self.next_snapshot(name) for name in names}
        return {name: number for name, number in numbers.items() if number is not None}

    def advance(self, consumer_id: str, next_snapshot: int) -> int:
        """Note that a consumer has read all before a snapshot; an older number changes nothing."""
        known = self.next_snapshot(consumer_id)
        if known is not None and known >= next_snapshot:
            return known
        self.reset(consumer_id, next_snapshot)
        return next_snapshot

    def reset(self, consumer_id: str, next_snapshot: int) -> None:
        """Let a consumer continue at a snapshot, be it an earlier one."""
        if next_snapshot < FIRST_SNAPSHOT_ID:
            raise errors.InvalidInputError(
                f"Consumer '{consumer_id}' cannot continue at snapshot {next_snapshot}; the first"
                f" is {FIRST_SNAPSHOT_ID}.",
                kind="consumer",
            )
        check_file_name("consumer", consumer_id)
        self._write(consumer_id, next_snapshot)

    def delete(self, consumer_id: str) -> None:
        """Forget a consumer; fine if there is none."""
        self._file_io.delete_file(self._path(consumer_id))

    def min_next_snapshot(self) -> int | None:
        """Return the oldest snapshot some consumer still needs, None without consumers."""
        return min(self.list().values(), default=None)

    def expire(self, time_retained_ms: int, *, dry_run: bool = False) -> tuple[str, ...]:
        """Forget the consumers that did not advance for a time, and return their names."""
        before = self._clock.now_millis() - time_retained_ms
        files = prefixed_files(self._file_io, self._paths.consumer_directory, CONSUMER_PREFIX)
        old = [name for name, status in files.items() if 0 < status.modified_ms < before]
        for name in () if dry_run else old:
            self.delete(name)
        return tuple(old)

    def _write(self, consumer_id: str, next_snapshot: int) -> None:
        data = json.dumps({_NEXT_SNAPSHOT: next_snapshot}, separators=(",", ":")).encode()
        self._file_io.replace(self._path(consumer_id), data)

    def _path(self, consumer_id: str) -> str:
        return self._paths.consumer(known_file_name("consumer", consumer_id))
