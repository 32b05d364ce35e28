"""Four processes commit at the same time: each acknowledged commit is there once."""

from pathlib import Path

import pytest

from tests.testkit.effort import is_hunt
from tests.testkit.faults.writers import commit_in_step, fork_server
from tests.testkit.tables import new_catalog_in, new_table

WORKERS = 4
COMMITS = 40 if is_hunt() else 15
COLUMNS = {"worker": "INT", "number": "INT"}


@pytest.mark.hunt
@pytest.mark.parametrize(
    ("primary_keys", "bucket"), [((), "-1"), (("worker", "number"), "2")], ids=["append", "key"]
)
def test_no_acknowledged_commit_is_lost(
    primary_keys: tuple[str, ...], bucket: str, tmp_path: Path
) -> None:
    catalog = new_catalog_in(tmp_path, "d")
    # Every round has one loser of all four tries; patience is not tested.
    options = {"bucket": bucket, "commit.max-retries": "100", "commit.max-retry-wait": "20 ms"}
    table = new_table(catalog, COLUMNS, name="d.t", primary_keys=primary_keys, options=options)
    context = fork_server()
    with context.Manager() as manager:
        acknowledged = [manager.list() for _ in range(WORKERS)]
        barrier = context.Barrier(WORKERS)
        processes = [
            context.Process(
                target=commit_in_step,
                args=(table.path, worker, COMMITS, barrier, acknowledged[worker]),
            )
            for worker in range(WORKERS)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
        assert [process.exitcode for process in processes] == [0] * WORKERS
        ids = [snapshot_id for worker in acknowledged for snapshot_id in worker]

    assert sorted(ids) == list(range(1, WORKERS * COMMITS + 1))
    commits = {(snapshot.commit_user, snapshot.commit_identifier) for snapshot in table.snapshots()}
    assert len(commits) == WORKERS * COMMITS
    rows = table.new_read_builder().to_arrow().to_pylist()
    assert sorted((row["worker"], row["number"]) for row in rows) == [
        (worker, number) for worker in range(WORKERS) for number in range(COMMITS)
    ]
