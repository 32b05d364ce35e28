"""Moments, tags, branches, consumers and rollback on the command line."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def run(tmp_path, invoke):
    invoke(
        "create", "db.t", "--column", "id BIGINT", "--column", "name STRING",
        "--primary-key", "id", "--option", "bucket=1",
    )  # fmt: skip
    for number, name in enumerate("abc"):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": [number, 9], "name": [name, name]}), path)
        invoke("write", "db.t", str(path))
    return invoke


def rows(run, tmp_path, *arguments):
    out = tmp_path / "out.json"
    run("read", *arguments, "--out", str(out))
    return [tuple(json.loads(line).values()) for line in out.read_text().splitlines()]


def test_time_travel_by_snapshot_tag_or_option(run, tmp_path):
    assert "tag v1 is snapshot 1" in run("tag", "create", "db.t", "v1", "--snapshot", "1")
    wanted = [(0, "a"), (9, "a")]
    assert rows(run, tmp_path, "db.t", "--snapshot", "1") == wanted
    assert rows(run, tmp_path, "db.t", "--tag", "v1") == wanted
    assert rows(run, tmp_path, "db.t", "--option", "scan.version=v1") == wanted
    assert "scan.snapshot-id" in run("read", "db.t", "--tag", "v1", "--snapshot", "1", code=2)
    early = run("read", "db.t", "--timestamp", "1999-01-01", code=3)
    assert "no snapshot at or before 1999-01-01 00:00:00.000 UTC; its oldest" in early
    assert "snapshot 1: 1 split, 1 file" in run("plan", "db.t", "--tag", "v1")


def test_changes_are_read_with_their_kinds(run, tmp_path):
    changes = ("db.t", "--between", "1,3", "--mode", "diff", "--row-kinds")
    assert rows(run, tmp_path, *changes) == [("+I", 1, "b"), ("+I", 2, "c"), ("+U", 9, "c")]
    assert "2 files" in run("plan", "db.t", "--between", "1,3")


def test_system_tables_are_read_by_name(run, tmp_path):
    run("tag", "create", "db.t", "v1", "--retain", "7 d")
    assert [row[:2] for row in rows(run, tmp_path, "db.t$tags")] == [("v1", 3)]
    assert len(rows(run, tmp_path, "db.t$files", "--snapshot", "2")) == 2
    assert rows(run, tmp_path, str(tmp_path / "w" / "db.db" / "t$consumers")) == []
    assert rows(run, tmp_path, "db.t$audit_log", "--option", "incremental-between=2,3") == [
        ("+I", 2, "c"), ("+I", 9, "c")
    ]  # fmt: skip
    assert "no system table 'nothing'" in run("read", "db.t$nothing", code=3)
    assert "leave out --where" in run("read", "db.t$files", "--where", "level = 0", code=2)


def test_tags_branches_and_consumers_are_kept_in_order(run, tmp_path):
    run("tag", "create", "db.t", "old", "--snapshot", "1")
    run("tag", "create", "db.t", "old", "--if-not-exists")
    assert "tag old is v1 now" in run("tag", "rename", "db.t", "old", "v1")
    assert "needs" not in run("branch", "create", "db.t", "b", "--tag", "v1")
    run("write", "db.t$branch_b", str(tmp_path / "2.parquet"))
    assert rows(run, tmp_path, "db.t$branch_b") == [(0, "a"), (2, "c"), (9, "c")]
    assert "at snapshot 2" in run("branch", "fast-forward", "db.t", "b", "--yes")
    assert rows(run, tmp_path, "db.t") == [(0, "a"), (2, "c"), (9, "c")]
    run("consumer", "reset", "db.t", "etl", "2")
    assert rows(run, tmp_path, "db.t$consumers") == [("etl", 2)]
    run("consumer", "delete", "db.t", "etl", "--yes")
    assert "2 snapshots" not in run("rollback", "db.t", "--tag", "v1", "--yes")
    assert rows(run, tmp_path, "db.t") == [(0, "a"), (9, "a")]
    run("branch", "delete", "db.t", "b", "--yes")
    assert "with 0 data files" in run("tag", "delete", "db.t", "v1", "--yes")
    assert rows(run, tmp_path, "db.t$branches") == []
    assert "--snapshot, --tag and --schema" in run("rollback", "db.t", code=2)
    assert "is at schema 0" in run("rollback", "db.t", "--schema", "0", "--yes")
    assert "duration" in run("tag", "create", "db.t", "x", "--retain", "long", code=2)


def test_tag_that_holds_segments_stays(run):
    run("tag", "create", "db.t", "__segment_hold_0_1")
    assert "it stays" in run("tag", "delete", "db.t", "__segment_hold_0_1", "--yes", code=2)


def test_batches_that_were_refused_are_dropped(run, tmp_path):
    run("branch", "create", "db.t", "audit_4711")
    assert "Branches deleted: none" in run("branch", "drop-audited", "db.t", "--yes")  # half made
    dropped = run("branch", "drop-audited", "db.t", "--older-than", "0 s", "--yes")
    assert "Branches deleted: audit_4711" in dropped
    assert rows(run, tmp_path, "db.t$branches") == []


def test_only_times_of_commits_are_marked_as_utc(run):
    run("tag", "create", "db.t", "for-a-day", "--retain", "1 d")
    lines = json.loads(run("tag", "list", "db.t", "--json"))
    [line] = [line for line in lines if line["tag_name"] == "for-a-day"]
    assert line["commit_time"].endswith("+00:00")
    assert "+" not in line["create_time"], "a tag's own time is of its writer's clock"
