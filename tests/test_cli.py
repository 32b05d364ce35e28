import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from paimon_assets.cli import main


@pytest.fixture
def run(tmp_path):
    def invoke(*arguments, code=0):
        result = CliRunner().invoke(main, ["--warehouse", str(tmp_path / "w"), *arguments])
        assert result.exit_code == code, result.output
        return result.output

    return invoke


@pytest.fixture
def rows_file(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), path)
    return str(path)


def create(run, *more):
    return run(
        "create", "db.t", "--column", "id BIGINT", "--column", "name STRING",
        "--primary-key", "id", "--option", "bucket=1", *more,
    )  # fmt: skip


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "json"])
def test_rows_go_in_and_come_out_in_every_format(run, rows_file, tmp_path, suffix):
    assert "schema 0" in create(run)
    assert "snapshot 1: 2 rows in, 0 ignored, 2 written" in run("write", "db.t", rows_file)
    out = tmp_path / f"out.{suffix}"
    assert "2 rows" in run("read", "db.t", "--out", str(out))
    match suffix:
        case "parquet":
            found = pq.read_table(out).to_pylist()
        case "arrow":
            found = pa.ipc.open_file(out).read_all().to_pylist()
        case "csv":
            found = pyarrow.csv.read_csv(out).to_pylist()
        case _:
            found = [json.loads(line) for line in out.read_text().splitlines()]
    assert found == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert not out.with_name(out.name + ".part").exists()


def test_a_bare_table_directory_is_a_target(run, rows_file, tmp_path):
    create(run)
    run("write", "db.t", rows_file)
    result = CliRunner().invoke(main, ["read", str(tmp_path / "w" / "db.db" / "t")])
    assert result.exit_code == 0, result.output
    assert "2 rows" in result.output


def test_reading_takes_columns_filter_snapshot_and_limit(run, rows_file):
    create(run)
    run("write", "db.t", rows_file)
    run("write", "db.t", rows_file)
    output = run("read", "db.t", "--columns", "name", "--where", "id = 2", "--snapshot", "1")
    assert "│ b" in output
    assert "│ a" not in output
    assert "1 rows" in run("read", "db.t", "--limit", "1")


def test_metadata_commands_show_what_is_there(run, rows_file):
    create(run, "--comment", "people")
    run("write", "db.t", rows_file)
    assert "bucket = 1" in run("schema", "db.t")
    assert json.loads(run("schema", "db.t", "--json"))[0]["comment"] == "people"
    assert json.loads(run("snapshots", "db.t", "--json"))[0]["commit_kind"] == "APPEND"
    assert json.loads(run("files", "db.t", "--json"))[0]["record_count"] == 2
    assert "snapshot 1: 1 splits, 1 files" in run("plan", "db.t")


def test_a_writer_that_comes_again_is_told_so(run, rows_file):
    create(run)
    run("write", "db.t", rows_file, "--commit-user", "me")
    assert "already committed as snapshot 1" in run(
        "write", "db.t", rows_file, "--commit-user", "me"
    )


def test_columns_can_be_taken_from_a_file(run, rows_file):
    run("create", "db.like", "--like", rows_file)
    assert "STRING" in run("schema", "db.like")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["read", "db.nothing"], "db.nothing"),
        (["create", "db.t"], "--column"),
        (["create", "t", "--column", "a INT"], "database.table"),
        (["create", "db.t", "--column", "a INTT"], "INTT"),
        (["create", "db.t", "--column", "a"], "NAME TYPE"),
    ],
)
def test_bad_input_is_one_clear_line_and_a_failure(run, arguments, message):
    output = run(*arguments, code=1)
    assert message in output
    assert "Traceback" not in output
    assert len(output.strip().splitlines()) == 1


def test_a_bad_output_suffix_leaves_nothing(run, rows_file, tmp_path):
    create(run)
    run("write", "db.t", rows_file)
    assert ".xlsx" in run("read", "db.t", "--out", str(tmp_path / "o.xlsx"), code=1)
    assert not list(tmp_path.glob("o.xlsx*"))
