"""How long snapshots and changelogs are kept, as numbers; which of them stay.

Source: `org.apache.paimon.options.ExpireConfig`, `ExpireSnapshotsImpl`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.maintenance_options import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from paimon_assets.engine.spec.options.option import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The retention rule for numbered snapshots."""

    min_count: int
    """The newest ones that stay, however old they are; at least 1."""
    max_count: int
    """More than these go, however young they are."""
    time_ms: int
    """How long one stays after the next one was made."""
    limit: int
    """Most to expire at a time."""
    before: int | None = None
    """All before this one go, and no other; the numbers above but the limit count for nothing."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_count <= self.max_count or self.limit < 1 or self.time_ms < 0:
            raise InvalidInputError(
                f"Of the snapshots at least {self.min_count} and at most {self.max_count} shall "
                f"stay, and {self.limit} expire at a time; expected 1 <= "
                f"'{SNAPSHOT_NUM_RETAINED_MIN.key}' <= '{SNAPSHOT_NUM_RETAINED_MAX.key}' and 1 <= "
                f"'{SNAPSHOT_EXPIRE_LIMIT.key}'.",
                kind="retention",
            )

    @classmethod
    def of_snapshots(cls, options: Options) -> Self:
        """Read the retention of a table's snapshots."""
        return cls(
            min_count=options.get(SNAPSHOT_NUM_RETAINED_MIN),
            max_count=options.get(SNAPSHOT_NUM_RETAINED_MAX),
            time_ms=options.get(SNAPSHOT_TIME_RETAINED),
            limit=options.get(SNAPSHOT_EXPIRE_LIMIT),
        )

    @classmethod
    def of_changelogs(cls, options: Options) -> Self:
        """Read the retention of a table's changelogs."""
        base = cls.of_snapshots(options)
        return cls(
            min_count=_or(options.get(CHANGELOG_NUM_RETAINED_MIN), base.min_count),
            max_count=_or(options.get(CHANGELOG_NUM_RETAINED_MAX), base.max_count),
            time_ms=_or(options.get(CHANGELOG_TIME_RETAINED), base.time_ms),
            limit=base.limit,
        )

    def outlives(self, other: "Retention") -> bool:
        """Whether something may stay by these rules that goes by the other ones."""
        return (
            self.max_count > other.max_count
            or self.min_count > other.min_count
            or self.time_ms > other.time_ms
        )

    def first_retained(
        self, earliest: int, latest: int, *, now_ms: int, time_of: Callable[[int], int | None]
    ) -> int:
        """Return the id of the oldest one that stays; all before it go.

        >>> keep = Retention(min_count=2, max_count=5, time_ms=10, limit=50)
        >>> keep.first_retained(1, 9, now_ms=100, time_of=lambda number: 10 * number)
        8
        >>> keep.first_retained(1, 9, now_ms=45, time_of=lambda number: 10 * number)
        5
        """
        if self.before is not None:
            return max(min(self.before, latest, earliest + self.limit), earliest)
        end = min(latest - self.min_count + 1, earliest + self.limit)
        judged, made = 0, None
        for number in range(max(latest - self.max_count + 1, earliest), end):
            if number >= judged:
                judged, made = self._make(number + 1, latest, now_ms, time_of)
            if made is not None and now_ms - self.time_ms <= made:
                return max(number, earliest)
        return max(end, earliest)

    def _make(
        self, number: int, latest: int, now_ms: int, time_of: Callable[[int], int | None]
    ) -> tuple[int, int | None]:
        """Return when one was made, with its number, or that of a later one which says it.

        A clock that is ahead by more than `time_ms` would hold all that follow until it is right:
        so the time is taken of the next one whose clock is not. If there is none, it is now.
        """
        for later in range(number, latest + 1):
            made = time_of(later)
            if made is None and later > number:
                continue
            if made is None or made - now_ms <= self.time_ms:
                return later, made
        return latest, now_ms


def changelogs_live_longer(options: Options) -> bool:
    """Whether an expired snapshot leaves its changelog behind."""
    return Retention.of_changelogs(options).outlives(Retention.of_snapshots(options))


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
