"""Which snapshots are read to know that a commit did not happen."""

import itertools
from dataclasses import replace

import pytest

from paimon_assets.engine.control.managers.commit_history import CommitHistory, RecentUser
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot

KINDS = frozenset(CommitKind)
_NUMBERS = itertools.count()


def snapshot(number: int, user: str = "other") -> Snapshot:
    return Snapshot(
        id=number,
        schema_id=0,
        base_manifest_list="base",
        delta_manifest_list=f"delta-{number}",
        commit_user=user,
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=number * 1000,
        total_record_count=0,
        delta_record_count=0,
    )


@pytest.fixture
def history():
    snapshots = {number: snapshot(number) for number in range(1, 1001)}
    snapshots[500] = replace(snapshots[500], commit_user="old")
    snapshots[990] = replace(snapshots[990], commit_user="run")
    read = []

    def read_one(number):
        read.append(number)
        return snapshots.get(number)

    return CommitHistory(("memory", str(next(_NUMBERS))), read_one), snapshots, read


def test_of_a_recent_user_older_snapshots_are_not_read(history):
    commits, snapshots, read = history
    user = RecentUser("run", since_ms=980_000)
    assert commits.find(snapshots[1000], user, 1, KINDS) == snapshots[990]
    assert commits.find(snapshots[1000], RecentUser("x", since_ms=980_000), 1, KINDS) is None
    assert min(read) > 980 - 32


def test_an_older_user_is_found_after_a_recent_one(history):
    commits, snapshots, _ = history
    assert commits.find(snapshots[1000], RecentUser("run", 980_000), 1, KINDS) == snapshots[990]
    assert commits.find(snapshots[1000], "old", 1, KINDS) == snapshots[500]
    assert commits.find(snapshots[1000], RecentUser("old", 400_000), 1, KINDS) == snapshots[500]
