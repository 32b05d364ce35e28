"""Segments on the command line."""

import pyarrow as pa
import pytest
from click.testing import CliRunner

from paimon_assets.cli import main
from tests.testkit.foreign import states, write


@pytest.fixture
def run(tmp_path):
    def invoke(*arguments, code=0):
        result = CliRunner().invoke(main, ["--warehouse", str(tmp_path / "w"), *arguments])
        assert result.exit_code == code, result.output
        return result.output

    columns = ("--column", "v INT", "--column", "day INT")
    invoke("create", "db.t", *columns, "--partition-by", "day")
    for day in (1, 2):
        data = pa.table({"v": pa.array([day, None], pa.int32())})
        write(tmp_path / "in" / f"day={day}" / "0.parquet", data)
    return invoke


def test_a_folder_comes_in_is_shown_and_goes_and_stays_as_it_is(run, tmp_path):
    folder = str(tmp_path / "in")
    before = states(tmp_path / "in")
    arguments = ("segments", "add", "db.t", folder, "--partition", "day:int")
    planned = run(*arguments, "--dry-run")
    assert "2 files with 4 rows in 2 folders" in planned
    assert "partition option is required" in run("segments", "add", "db.t", folder, code=1)
    assert "segments 0, 1 with 2 files and 4 rows were added in snapshot 1" in run(*arguments)
    assert "no segment was added" in run(*arguments, "--only-new")
    shown = run("segments", "list", "db.t")
    assert shown.count("Success") == 2
    assert "{day=2}" not in run("segments", "list", "db.t", "--limit", "0")
    assert "4 rows" in run("read", "db.t")
    assert "Give ids" in run("segments", "delete", "db.t", code=2)
    assert "no live segment 7" in run("segments", "delete", "db.t", "7", code=1)
    assert "no segment was deleted" in run("segments", "delete", "db.t", "--before", "1999-01-01")
    deleted = run("segments", "delete", "db.t", "0", "--before", "2999-01-01 00:00:00")
    assert "segments 0, 1" in deleted
    assert "0 deleted segments" in run("segments", "clean", "db.t")
    assert "2 deleted segments" in run("segments", "clean", "db.t", "--force")
    assert states(tmp_path / "in") == before


def test_a_folder_is_read_anew(run, tmp_path):
    run("segments", "add", "db.t", str(tmp_path / "in"), "--partition", "day:int")
    assert "no segment was read anew" in run("segments", "refresh", "db.t")
    write(tmp_path / "in" / "day=2" / "1.parquet", pa.table({"v": pa.array([5], pa.int32())}))
    assert "segments 1 with 2 files and 3 rows were read anew" in run("segments", "refresh", "db.t")
    planned = run("segments", "add", "db.t", str(tmp_path / "none"), "--dry-run", code=1)
    assert "does not exist" in planned
