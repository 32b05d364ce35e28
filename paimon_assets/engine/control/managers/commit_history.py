"""CommitHistory: which commits a table has seen, so that none happens twice.

To know that a commit did *not* happen, every snapshot that may be its own is read, once a process,
and remembered with the newest snapshot (the anchor). If the anchor is unchanged, everything before
it is too, because snapshots are only ever added at the end; if not (a
rollback, a table dropped and made again), everything is read again.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import takewhile
from threading import Lock
from typing import Self
from uuid import uuid4

from msgspec import Struct, field

from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot

_READERS = 16

TableKey = tuple[str, str]
"""(storage scheme, snapshot directory)."""


class _Seen(Struct):
    anchor: Snapshot | None = None
    commits: dict[tuple[str, int], dict[CommitKind, int]] = field(default_factory=dict)
    """(user, identifier) → kind → snapshot id."""
    since_ms: int = 0
    """No older snapshot was read, in epoch milliseconds."""
    lock: Lock = field(default_factory=Lock)


@lru_cache(maxsize=64)
def _seen_of(_table: TableKey) -> _Seen:
    return _Seen()


class _User(str):
    """A commit user with a known past; sent to another process it is a plain text."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


class NewUser(_User):
    """A commit user that was just generated: only snapshots after the first look can be its own."""

    __slots__ = ("first_looks",)
    first_looks: dict[TableKey, Snapshot | None]
    """Table → its newest snapshot at the first look."""

    def __new__(cls, prefix: str = "") -> Self:
        made = super().__new__(cls, f"{prefix}{uuid4()}")
        made.first_looks = {}
        return made


class RecentUser(_User):
    """A commit user that did not exist before a time: older snapshots need not be read for it."""

    __slots__ = ("since_ms",)
    since_ms: int
    """Epoch milliseconds; leave room for clocks of writers that are behind."""

    def __new__(cls, name: str, since_ms: int) -> Self:
        """Take a name that was first used then."""
        user = super().__new__(cls, name)
        user.since_ms = since_ms
        return user


class CommitHistory:
    def __init__(self, table: TableKey, read: Callable[[int], Snapshot | None]) -> None:
        self._table = table
        self._read = read

    def find(
        self,
        latest: Snapshot | None,
        commit_user: str,
        commit_identifier: int,
        kinds: frozenset[CommitKind],
    ) -> Snapshot | None:
        """Return the newest snapshot of a commit, None if there is none."""
        if isinstance(commit_user, NewUser) and self._table not in commit_user.first_looks:
            commit_user.first_looks[self._table] = latest
            return None
        if latest is None:
            return None
        if isinstance(commit_user, NewUser):
            first = commit_user.first_looks[self._table]
            if first is None or self._still_true(first, latest):
                after = 0 if first is None else first.id
                later = self._newer(after, latest) if after < latest.id else iter(())
                key = (commit_user, commit_identifier)
                matches = (s for s in later if (s.commit_user, s.commit_identifier) == key)
                return next((s for s in matches if s.commit_kind in kinds), None)
        since_ms = commit_user.since_ms if isinstance(commit_user, RecentUser) else 0
        by_kind = self._up_to(latest, since_ms).commits.get((commit_user, commit_identifier), {})
        ids = [snapshot_id for kind, snapshot_id in by_kind.items() if kind in kinds]
        if not ids:
            return None
        return latest if max(ids) == latest.id else self._read(max(ids))

    def _up_to(self, latest: Snapshot, since_ms: int) -> _Seen:
        seen = _seen_of(self._table)
        with seen.lock:
            is_stale = seen.anchor is not None and not self._still_true(seen.anchor, latest)
            if is_stale or seen.since_ms > since_ms:
                seen.anchor = None
                seen.commits.clear()
            if seen.anchor is None:
                seen.since_ms = since_ms
            if seen.anchor is not None and seen.anchor.id == latest.id:
                return seen
            newer = self._newer(seen.anchor.id if seen.anchor else 0, latest)
            if seen.anchor is None:
                newer = takewhile(lambda snapshot: snapshot.time_millis >= since_ms, newer)
            for snapshot in reversed(list(newer)):
                key = (snapshot.commit_user, snapshot.commit_identifier)
                seen.commits.setdefault(key, {})[snapshot.commit_kind] = snapshot.id
            seen.anchor = latest
        return seen

    def _still_true(self, anchor: Snapshot, latest: Snapshot) -> bool:
        if anchor.id > latest.id:
            return False
        now = latest if anchor.id == latest.id else self._read(anchor.id)
        # Names of manifest lists are unique over time, ids of snapshots are not.
        return now is not None and now.delta_manifest_list == anchor.delta_manifest_list

    def _newer(self, after: int, latest: Snapshot) -> Iterator[Snapshot]:
        """Yield the snapshots after `after`, newest first, until the first expired one.

        Below may lie a late one, with an expired number, whose writer died: it counts for nothing.
        """
        above = latest
        yield latest
        ids = range(latest.id - 1, after, -1)
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_READERS, thread_name_prefix="commit-history") as pool:
            read = pool.map if len(ids) > 1 else map
            for start in range(0, len(ids), _READERS):
                for snapshot in read(self._read, ids[start : start + _READERS]):
                    if snapshot is None or not above.may_follow(snapshot):
                        return
                    above = snapshot
                    yield snapshot
