"""SnapshotManager: the `snapshot-N` files of a table and the hints to the newest and the oldest.

A hint is only a hint: it is written by a plain overwrite and may be missing, torn, old or
unreadable. `LATEST` is believed if its own snapshot exists and the next one does not; `EARLIEST` if
its own exists. With right hints no directory is listed. A number that expired is free again, and a
slow writer may publish it before it looks back: so the directory is listed where this process has
seen a higher number, and where a commit finds no snapshot below the newest one. Of a table that a
catalog manages the catalog alone knows the newest snapshot (`NewestOf`); files with higher
numbers are none of the table's.
Source: `org.apache.paimon.utils.SnapshotManager`, `HintFileUtils`, `ChangelogManager`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise

from paimon_assets.engine.codec.json.metadata_json import snapshot_from_json
from paimon_assets.engine.control.managers.commit_history import CommitHistory
from paimon_assets.engine.control.managers.numbered_files import (
    HIGHEST,
    number_of,
    numbered_files,
    read_or_none,
)
from paimon_assets.engine.errors import NotFoundError, PaimonError, StorageError
from paimon_assets.engine.fileio.base import OBJECT_SCHEMES, FileIO
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.paths import (
    CHANGELOG_PREFIX,
    EARLIEST,
    LATEST,
    SNAPSHOT_PREFIX,
    TablePaths,
)
from paimon_assets.engine.spec.values import Value

logger = logging.getLogger(__name__)

_MOST_LISTINGS = 50
"""While rollbacks delete listed snapshots; a storage that lists ghosts would be asked for ever."""
_EMPTY_LISTINGS = 5
"""So often nothing must be listed of a table that has a hint."""
_READERS = 16
_STEPS_BEHIND = 8
"""A hint this much behind is walked forward; beyond that one listing is cheaper."""
_NEWEST_SEEN: dict[tuple[str, str], int] = {}
"""(scheme, snapshot folder) → a snapshot that was the newest: a guess, requested ahead; and
a lower one is not believed without a listing."""
_TABLES_SEEN = 1_000

_parse = lru_cache(maxsize=64)(snapshot_from_json)
"""One commit reads the same few bytes again and again."""

NewestOf = Callable[[], Snapshot | None]
"""Asks a catalog for the newest snapshot of a branch, None if nothing was committed yet.

It raises NotFoundError if there is no such table or branch, StorageError if that is unknown.
"""


class PathsOfLatest(Value):
    """The files that `SnapshotManager.latest` reads and looks for, and the folders it lists."""

    reads: Sequence[str] = ()
    files: Sequence[str] = ()
    lists: Sequence[str] = ()
    hints: Sequence[str] = ()


class SnapshotManager:
    """Finds and reads snapshots; keeps none, because a rollback may rewrite them."""

    def __init__(
        self,
        file_io: FileIO,
        paths: TablePaths,
        *,
        newest_of: NewestOf | None = None,
        check: Callable[[Snapshot | None], None] = lambda _: None,
    ) -> None:
        self.check = check
        """Raises if a snapshot is of another table, which took the place of this one."""
        self._file_io = file_io
        self._paths = paths
        self._newest_of = newest_of
        self._key = (file_io.spec.scheme, paths.snapshot_directory)
        self._history = CommitHistory(self._key, self.snapshot_or_none)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        snapshot = self.snapshot_or_none(snapshot_id)
        self.check(snapshot)
        if snapshot is not None:
            return snapshot
        ids = self.list_ids()
        raise NotFoundError(
            f"Snapshot {snapshot_id} of table '{self._paths.label}' does not exist; there are "
            + (f"snapshots {ids[0]} to {ids[-1]}." if ids else "no snapshots."),
            kind="snapshot-not-found",
            snapshot_id=snapshot_id,
            path=self._paths.table,
        )

    def snapshot_or_none(self, snapshot_id: int) -> Snapshot | None:
        path = self._paths.snapshot(snapshot_id)
        data = read_or_none(self._file_io, path)
        return None if data is None else _parse(data, path)

    def is_same(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is still there as it was read; ids are used twice, lists are not."""
        stored = self.snapshot_or_none(snapshot.id)
        return stored is not None and stored.delta_manifest_list == snapshot.delta_manifest_list

    def has_its_files(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is there and names the files it did; an erasure replaces some."""
        stored = self.snapshot_or_none(snapshot.id)
        return stored is not None and not stored.names_other_files(snapshot)

    def published_as(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot a commit has published under an id, None if none has."""
        if self._newest_of is None:
            return self.snapshot_or_none(snapshot_id)
        newest = self.latest()
        if newest is None or newest.id < snapshot_id:
            return None
        return newest if newest.id == snapshot_id else self.snapshot_or_none(snapshot_id)

    def break_at(self, newest: Snapshot) -> tuple[int, int] | None:
        """Return the snapshots below and above a break in the line at the newest one, else None.

        A writer that publishes on top of undone snapshots leaves one until it looks back; for
        ever, if it dies before. A rollback in its midst looks alike. A snapshot with an expired
        number is below a break, too, until its writer looks back; once `EARLIEST` is above it, no
        one needs it. Cost: two storage calls; a listing more if the snapshot before is gone.
        """
        if self._newest_of is not None:
            return None  # the keeper of the newest also rolls back, in one step
        before, above = newest.id - 1, newest.id + 2
        reads = map(self._paths.snapshot, [before] if before else [])
        with self._file_io.ahead(reads=reads, files=[self._paths.snapshot(above)]):
            is_above = self._exists(above)
            base = self.snapshot_or_none(before) if before else None
        if not is_above or self._exists(newest.id + 1):
            if base is not None or not before:
                ids, older = [], [] if base is None or newest.may_follow(base) else [before]
            else:
                ids = self.list_ids()
                older = [number for number in ids if number < before]
            if not ids or ids[-1] <= newest.id or newest.id + 1 in ids:
                is_break = bool(older) and older[-1] >= (self.earliest_id() or 0)
                return (older[-1], newest.id) if is_break else None
            above = ids[-1]
        if (self.earliest_id() or 0) > newest.id:
            self.remember(above)  # a hint led below the line: the next `latest` lists
        return newest.id, above

    def paths_of_latest(self, *, with_break: bool = False) -> PathsOfLatest:
        """Return the paths of the next `latest`, and of `break_at` if asked.

        A guess, by the newest snapshot that this process has seen. While that one and the one
        below are unchanged, and none is above, the hint does not matter.
        """
        if self._newest_of is not None:
            return PathsOfLatest()
        directory, newest = self._paths.snapshot_directory, _NEWEST_SEEN.get(self._key)
        hint = f"{directory}/{LATEST}"
        if not newest:
            return PathsOfLatest(reads=[hint], lists=[directory] if newest == 0 else [])
        befores = (newest - 1,) if with_break and newest > 1 else ()
        nexts = (newest + 1, newest + 2)[: 1 + with_break]
        return PathsOfLatest(
            hints=[hint],
            reads=[self._paths.snapshot(number) for number in (newest, *befores)],
            files=[self._paths.snapshot(number) for number in nexts],
        )

    @contextmanager
    def with_hint(self) -> Iterator[None]:
        """Read the hint beside the block, of a table on an object store that is new to a process.

        The next `latest` takes it as its guess.
        """
        is_new = self._newest_of is None and self._key not in _NEWEST_SEEN
        is_new = is_new and self._file_io.spec.scheme in OBJECT_SCHEMES
        hints = [f"{self._paths.snapshot_directory}/{LATEST}"] if is_new else []
        with self._file_io.ahead(hints=hints):
            yield
            if is_new and (number := self._read_hint(LATEST)):
                self.remember(number)

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot of the table that was opened, None if there is none yet.

        Cost: three storage calls (hint, is there a next one, the snapshot) if the hint is right;
        one request where a catalog knows. One more to look for the table, if the snapshot does not
        say whose it is, or there is none.
        """
        latest = self._latest() if self._newest_of is None else self._newest_of()
        self.check(latest)
        return latest

    def _latest(self) -> Snapshot | None:
        path, paths = self._paths.snapshot, self.paths_of_latest()
        with self._file_io.ahead(
            reads=paths.reads, files=paths.files, lists=paths.lists, hints=paths.hints
        ):
            hinted = self._read_hint(LATEST)
            # The hints of commits side by side come late, and in any order.
            known = () if hinted is None else (max(hinted, _NEWEST_SEEN.get(self._key, 0)),)
            reads, files = [*map(path, known)], [path(number + 1) for number in known]
            with self._file_io.ahead(reads=reads, files=files):
                hint = self._walked_forward(*known) if known else None
                snapshot = self.snapshot_or_none(hint) if hint else None
            if snapshot is not None and snapshot.id >= _NEWEST_SEEN.get(self._key, 0):
                self.remember(snapshot.id)
                return snapshot
            ids: list[int] = []
            for number in range(_MOST_LISTINGS):
                ids = self.list_ids()
                snapshot = self.snapshot_or_none(ids[-1]) if ids else None
                # A listing that a commit and an expiration overtake may have neither's snapshot.
                is_empty = not ids and (hinted is None or number >= _EMPTY_LISTINGS)
                if snapshot is not None or is_empty:
                    self.remember(snapshot.id if snapshot else 0)
                    return snapshot
        raise self._ghost(ids[-1], "Storage lists")

    def remember(self, snapshot_id: int) -> None:
        """Guess next time that this is the newest snapshot; 0 guesses none."""
        if len(_NEWEST_SEEN) > _TABLES_SEEN:
            _NEWEST_SEEN.clear()
        _NEWEST_SEEN[self._key] = snapshot_id

    def latest_id(self) -> int | None:
        """Return the id of the newest snapshot, None if nothing was committed yet."""
        latest = self.latest()
        return latest.id if latest else None

    def earliest_id(self) -> int | None:
        """Return the id of the oldest snapshot that has not expired, None if there is none."""
        hint = self._read_hint(EARLIEST)
        if hint and self._exists(hint):
            return hint
        ids = self.list_ids()
        return ids[0] if ids else None

    def list_ids(self) -> list[int]:
        """Return the ids of all snapshots, ascending. Cost: one listing."""
        if self._newest_of is None:
            return self._list()
        newest, missing = self.latest(), 0
        for _ in range(_MOST_LISTINGS):
            if newest is None:
                return []
            missing, ids, newest = newest.id, self._list(), self.latest()
            if newest is not None and missing in ids:
                return [number for number in ids if number <= newest.id]
        raise self._ghost(missing, "The catalog names")

    def lacks(self, ids: Sequence[int]) -> bool:
        """Whether a listing lacks a snapshot that a request by name finds.

        Those are asked for that hints name, and the next ones to each end and hole of the listing.
        """
        first, last = (ids[0], ids[-1]) if ids else (2, 0)
        near = [first - 1, *((last + 1,) if self._newest_of is None else ())]
        near += (beside for a, b in pairwise(ids) if b - a > 1 for beside in (a + 1, b - 1))
        near += map(self._read_hint, (EARLIEST, LATEST)) if self._newest_of is None else ()
        asked = sorted(number for number in set(near).difference(ids) if number)
        with self._file_io.ahead(reads=map(self._paths.snapshot, asked)):
            return any(self.snapshot_or_none(number) is not None for number in asked)

    def all(self) -> Iterator[Snapshot]:
        """Yield all snapshots, oldest first, but those that expire meanwhile. Cost: reads each."""
        snapshots = map(self.snapshot_or_none, self.list_ids())
        return (snapshot for snapshot in snapshots if snapshot is not None)

    def at_timestamp(self, timestamp_ms: int) -> Snapshot | None:
        """Return the newest snapshot committed at or before a time, None if all are younger.

        Clocks of writers may go back from one commit to the next, so no halving. Cost: every newer
        snapshot is read, some at once.
        """
        latest = self.latest()
        if latest is None or latest.time_millis <= timestamp_ms:
            return latest
        earliest = self.earliest_id() or latest.id
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_READERS, thread_name_prefix="snapshots") as pool:
            for last in range(latest.id - 1, earliest - 1, -_READERS):
                ids = range(last, max(last - _READERS, earliest - 1), -1)
                for snapshot in pool.map(self.snapshot_or_none, ids):
                    if snapshot is not None and snapshot.time_millis <= timestamp_ms:
                        return snapshot
        return None

    def at_watermark(self, watermark: int) -> Snapshot | None:
        """Return the first snapshot with at least a watermark, or None. Cost: O(log n) are read."""
        latest = self.latest()
        if latest is None or not _reaches(latest, watermark):
            return None
        low, high = self.earliest_id() or latest.id, latest.id - 1
        best = latest
        while low <= high:
            middle = (low + high) // 2
            candidate = self.snapshot_or_none(middle)
            if candidate is None or not _reaches(candidate, watermark):
                low = middle + 1
            else:
                best, high = candidate, middle - 1
        return best

    def find_commit(
        self,
        commit_user: str,
        commit_identifier: int,
        kinds: Iterable[CommitKind] = tuple(CommitKind),
    ) -> Snapshot | None:
        """Return the snapshot of one commit of a user, None if it did not happen (or expired).

        Cost: every snapshot is read once a process; after that only new ones.
        """
        return self.find_commit_up_to(self.latest(), commit_user, commit_identifier, kinds)

    def find_commit_up_to(
        self,
        latest: Snapshot | None,
        commit_user: str,
        commit_identifier: int,
        kinds: Iterable[CommitKind],
    ) -> Snapshot | None:
        """Return the same, given the newest snapshot; one above a break in the line is none.

        Its writer could not withdraw it, and a person decides about it.
        """
        commit = self._history.find(latest, commit_user, commit_identifier, frozenset(kinds))
        is_stray = commit is not None and latest is not None and self.break_at(latest) is not None
        return None if is_stray else commit

    def delete_after(self, snapshot_id: int) -> tuple[int, ...]:
        """Delete all later snapshots, newest first, and return their ids.

        `LATEST` is deleted first: a reader that believed it would find nothing. `EARLIEST` is
        deleted last, for its number may be used again. A crash leaves no new gap among the
        snapshots. Concurrent commits are deleted, but for the next snapshot: that can only be built
        on this one.
        """
        gone: list[int] = []
        while True:
            first = snapshot_id + (2 if gone else 1)
            later = [number for number in reversed(self.list_ids()) if number >= first]
            if not later:
                self.forget_earliest()
                return tuple(gone)
            self._file_io.delete_file(f"{self._paths.snapshot_directory}/{LATEST}")
            for number in later:
                self._file_io.delete_file(self._paths.snapshot(number))
            gone += later

    def forget_earliest(self) -> None:
        """Let the next reader look for the oldest snapshot."""
        self._file_io.delete_file(f"{self._paths.snapshot_directory}/{EARLIEST}")

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Write for the next reader which snapshot is the oldest."""
        path = f"{self._paths.snapshot_directory}/{EARLIEST}"
        self._file_io.replace(path, str(snapshot_id).encode())

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Write for the next reader where to look first; a catalog needs no hint."""
        if self._newest_of is not None:
            return
        path = f"{self._paths.snapshot_directory}/{LATEST}"
        self._file_io.write_hint_later(path, str(snapshot_id).encode())
        self.remember(snapshot_id)

    def _list(self) -> list[int]:
        return numbered_files(self._file_io, self._paths.snapshot_directory, SNAPSHOT_PREFIX)

    def _exists(self, snapshot_id: int) -> bool:
        path = self._paths.snapshot(snapshot_id)
        with self._file_io.ahead(files=[path] if snapshot_id <= HIGHEST else []):
            return snapshot_id <= HIGHEST and self._file_io.exists(path)

    def _read_hint(self, name: str) -> int | None:
        try:
            data = self._file_io.read_bytes(f"{self._paths.snapshot_directory}/{name}")
        except NotFoundError:
            return None
        except (PaimonError, OSError):
            logger.warning("table %s: %s cannot be read", self._paths.label, name, exc_info=True)
            return None
        return number_of(data.decode("ascii", "replace")) or None

    def _walked_forward(self, hint: int) -> int | None:
        """Follow a hint that a committer has not yet renewed, or died before renewing."""
        for snapshot_id in range(hint, hint + _STEPS_BEHIND):
            if not self._exists(snapshot_id + 1):
                # Above one that expired is perhaps only a snapshot that came too late.
                is_right = snapshot_id == hint or self._exists(hint)
                return snapshot_id if is_right else None
        return None

    def _ghost(self, snapshot_id: int, source: str) -> StorageError:
        message = (
            f"{source} snapshot {snapshot_id} of table '{self._paths.label}', but storage does not "
            "find it."
        )
        return StorageError(message, kind="snapshot-listing", path=self._paths.table)


def _reaches(snapshot: Snapshot, watermark: int) -> bool:
    return snapshot.watermark is not None and snapshot.watermark >= watermark


class ChangelogManager:
    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def changelog_or_none(self, snapshot_id: int) -> Snapshot | None:
        path = self._paths.changelog(snapshot_id)
        data = read_or_none(self._file_io, path)
        return None if data is None else snapshot_from_json(data, path)

    def list_ids(self) -> list[int]:
        """Return the ids of all changelogs, ascending. Cost: one listing."""
        return numbered_files(self._file_io, self._paths.changelog_directory, CHANGELOG_PREFIX)

    def earliest_hint(self) -> int:
        """Return the oldest one by its hint, 0 if there is none; those below expired."""
        data = read_or_none(self._file_io, f"{self._paths.changelog_directory}/{EARLIEST}") or b""
        return number_of(data.decode("ascii", "replace")) or 0

    def delete_after(self, snapshot_id: int) -> tuple[int, ...]:
        """Delete the changelogs of later snapshots, newest first, and return their ids."""
        later = [number for number in reversed(self.list_ids()) if number > snapshot_id]
        if later:  # their numbers are used again
            self._file_io.delete_file(f"{self._paths.changelog_directory}/{EARLIEST}")
        for number in later:
            self._file_io.delete_file(self._paths.changelog(number))
        return tuple(later)
