"""ConsumerManager: how far readers have come, `consumer-<id>` files that keep snapshots alive.

A consumer's file holds the next snapshot it will read; snapshots from there on do not expire.
Source: `org.apache.paimon.consumer.ConsumerManager`.
"""

import json

from paimon_assets.engine.control.clock import Clock, SystemClock
from paimon_assets.engine.control.managers.numbered_files import (
    check_file_name,
    known_file_name,
    prefixed_files,
    read_or_none,
)
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.snapshot import FIRST_SNAPSHOT_ID
from paimon_assets.engine.spec.paths import CONSUMER_PREFIX, TablePaths

_NEXT_SNAPSHOT = "nextSnapshot"


class ConsumerManager:
    """Consumers of one branch of a table."""

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
        value, cause = None, None
        try:
            value = json.loads(data)[_NEXT_SNAPSHOT]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            cause = error
        if isinstance(value, bool) or not isinstance(value, int):
            raise FormatError(
                f"{path}: not a consumer's file; expected '{_NEXT_SNAPSHOT}' and a number.",
                kind="metadata-json",
                details={"path": path},
            ) from cause
        return value

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
            raise InvalidInputError(
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

    def expire(self, time_retained_ms: int) -> tuple[str, ...]:
        """Forget the consumers that did not advance for a time, and return their names."""
        before = self._clock.now_millis() - time_retained_ms
        files = prefixed_files(self._file_io, self._paths.consumer_directory, CONSUMER_PREFIX)
        old = [name for name, status in files.items() if 0 < status.modified_ms < before]
        for name in old:
            self.delete(name)
        return tuple(old)

    def _write(self, consumer_id: str, next_snapshot: int) -> None:
        data = json.dumps({_NEXT_SNAPSHOT: next_snapshot}, separators=(",", ":")).encode()
        self._file_io.replace(self._path(consumer_id), data)

    def _path(self, consumer_id: str) -> str:
        return self._paths.consumer(known_file_name("consumer", consumer_id))
