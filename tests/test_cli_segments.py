"""Segments on the command line."""

import pyarrow as pa
import pytest

from tests.testkit.foreign import states, write


@pytest.fixture
def run(tmp_path, invoke):
    columns = ("--column", "v INT", "--column", "day INT")
    invoke("create", "db.t", *columns, "--partition-by", "day")
    for day in (1, 2):
        data = pa.table({"v": pa.array([day, None], pa.int32())})
        write(tmp_path / "in" / f"day={day}" / "0.parquet", data)
    return invoke


def test_folder_is_added_shown_and_removed_unchanged(run, tmp_path):
    folder = str(tmp_path / "in")
    before = states(tmp_path / "in")
    arguments = ("segments", "add", "db.t", folder, "--partition", "day:int")
    planned = run(*arguments, "--dry-run")
    assert "2 files with 4 rows in 2 folders" in planned
    assert "partition option is required" in run("segments", "add", "db.t", folder, code=2)
    assert "segments 0, 1 with 2 files and 4 rows were added in snapshot 1" in run(*arguments)
    assert "no segment was added" in run(*arguments, "--only-new")
    shown = run("segments", "list", "db.t")
    assert shown.count("Success") == 2
    assert "{day=2}" not in run("segments", "list", "db.t", "--limit", "0")
    assert "4 rows" in run("read", "db.t")
    assert "Give ids" in run("segments", "delete", "db.t", code=2)
    assert "no live segment 7" in run("segments", "delete", "db.t", "7", "-y", code=3)
    assert "no segment was deleted" in run(
        "segments", "delete", "db.t", "--before", "1999-01-01", "-y"
    )
    deleted = run("segments", "delete", "db.t", "0", "--before", "2999-01-01 00:00:00", "-y")
    assert "segments 0, 1" in deleted
    assert "0 deleted segments" in run("segments", "clean", "db.t")
    assert "2 deleted segments" in run("segments", "clean", "db.t", "--force")
    assert states(tmp_path / "in") == before


def test_options_say_how_folder_of_texts_is_written(run, tmp_path):
    (tmp_path / "c" / "day=3").mkdir(parents=True)
    (tmp_path / "c" / "day=3" / "0").write_text("7 x\n")
    added = ("segments", "add", "db.t", str(tmp_path / "c"), "--format", "csv")
    options = ("--partition", "day:int", "--option", "sep= ", "--option", "fileheader=v,w")
    assert "is not KEY=VALUE" in run(*added, "--option", "header", code=2)
    assert "1 file and 1 row" in run(*added, *options, "--option", "header=false")
    assert "7" in run("read", "db.t")


def test_statements_are_those_of_api(run, tmp_path):
    shown = run(
        "sql",
        f"ALTER TABLE db.t ADD SEGMENT OPTIONS('path'='{tmp_path}/in', 'partition'='day:int')",
    )
    assert (shown.count("Success"), shown.count(" UTC")) == (2, 2)
    assert "Marked for Delete" in run(
        "sql", "DELETE FROM TABLE db.t WHERE SEGMENT.ID IN (1)", "--yes"
    )
    merge = "MERGE INTO db.t USING db.s ON t.id = s.id WHEN MATCHED THEN DELETE"
    assert "--executor spark" in run("sql", merge, "--yes", code=10)


def test_loads_of_table_are_listed_and_deleted(run, tmp_path):
    rows = write(tmp_path / "own.parquet", pa.table({"v": [1, 2, 3], "day": [4, 4, 4]}))
    run("write", "db.t", str(rows))
    run("segments", "add", "db.t", str(tmp_path / "in"), "--partition", "day:int")
    shown = run("segments", "list", "db.t")
    assert shown.count("Success") == 3
    assert "{day=4}" in shown
    assert "a load of the table's own" in run("segments", "refresh", "db.t", "0", code=2)
    assert "segments 0 with 1 file and 3 rows were deleted" in run(
        "segments", "delete", "db.t", "0", "--yes"
    )
    assert "4 rows" in run("read", "db.t")
    assert "1 deleted segment" in run("segments", "clean", "db.t", "--force")


def test_folders_that_may_be_read_are_named_beside_or_in_environment(run, tmp_path, monkeypatch):
    folder, other = str(tmp_path / "in"), str(tmp_path / "other")
    arguments = ("segments", "add", "db.t", folder, "--partition", "day:int")
    assert "is in none of the folders" in run(*arguments, "--root", other, code=2)
    monkeypatch.setenv("PAIMON_SEGMENT_ROOTS", f"{other} {other}-2")
    assert f"({other}, {other}-2)" in run(*arguments, code=2)
    assert "were added" in run(*arguments, "--root", other, "--root", str(tmp_path))
    write(tmp_path / "in" / "day=2" / "1.parquet", pa.table({"v": pa.array([5], pa.int32())}))
    assert "is in none of the folders" in run("segments", "refresh", "db.t", code=2)
    monkeypatch.setenv("PAIMON_SEGMENT_ROOTS", folder)
    assert "segments 1 with" in run("segments", "refresh", "db.t")
    assert "is blank" in run("segments", "refresh", "db.t", "--root", " ", code=2)


def test_folder_is_refreshed(run, tmp_path):
    run("segments", "add", "db.t", str(tmp_path / "in"), "--partition", "day:int")
    assert "no segment was read again" in run("segments", "refresh", "db.t")
    write(tmp_path / "in" / "day=2" / "1.parquet", pa.table({"v": pa.array([5], pa.int32())}))
    assert "segments 1 with 2 files and 3 rows were read again" in run(
        "segments", "refresh", "db.t"
    )
    planned = run("segments", "add", "db.t", str(tmp_path / "none"), "--dry-run", code=3)
    assert "does not exist" in planned
