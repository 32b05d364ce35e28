import datetime as dt
import json
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from paimon_assets.cli.commands import options_of_file
from paimon_assets.cli.main import main
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.options.catalog_options import environment_options
from tests.testkit.metadata_tables import ORPHAN


@pytest.fixture
def run(invoke):
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


def test_bare_table_directory_is_target(run, rows_file, tmp_path):
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
    assert "1 row" in run("read", "db.t", "--limit", "1")


def test_metadata_commands_show_their_objects(run, rows_file):
    create(run, "--comment", "people")
    run("write", "db.t", rows_file)
    assert "bucket = 1" in run("schema", "db.t")
    assert json.loads(run("schema", "db.t", "--json"))["comment"] == "people"
    assert json.loads(run("snapshots", "db.t", "--json"))[0]["commit_kind"] == "APPEND"
    assert json.loads(run("files", "db.t", "--json"))[0]["record_count"] == 2
    assert "snapshot 1: 1 split, 1 file" in run("plan", "db.t")


def test_repeated_writer_gets_note(run, rows_file):
    create(run)
    run("write", "db.t", rows_file, "--commit-user", "me")
    assert "already committed as snapshot 1" in run(
        "write", "db.t", rows_file, "--commit-user", "me"
    )


def test_columns_can_be_taken_from_file(run, rows_file):
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
        (["create", "db.t", "--column", "a INT", "--column", "a STRING"], "twice"),
        (["create", "db.t", "--column", "a ROW<x>"], "ROW<x>"),
        (["create", "../db.t", "--column", "a INT"], "database name"),
        (["create", "a/../../db.t", "--column", "a INT"], "must not hold a slash"),
        (["create", "db./t", "--column", "a INT"], "must not hold a slash"),
    ],
)
def test_bad_input_is_one_clear_line_and_failure(run, arguments, message):
    output = run(*arguments, code=3 if "db.nothing" in arguments else 2)
    assert message in output
    assert "Traceback" not in output
    assert len(output.strip().splitlines()) == 1


def test_bad_output_suffix_leaves_nothing(run, rows_file, tmp_path):
    create(run)
    run("write", "db.t", rows_file)
    assert ".xlsx" in run("read", "db.t", "--out", str(tmp_path / "o.xlsx"), code=2)
    assert not list(tmp_path.glob("o.xlsx*"))


def test_refused_import_leaves_no_database(run, tmp_path):
    run("create", "justone", "--column", "a INT", code=2)
    assert not (tmp_path / "w").exists()


def test_nested_types_are_written_as_they_are_shown(run):
    nested = "tags MAP<STRING, ARRAY<ROW<x INT, y DECIMAL(5, 2)>>>"
    run("create", "db.n", "--column", "id INT", "--column", nested)
    assert nested.partition(" ")[2] in run("schema", "db.n")


ROWS = {
    "id": pa.array([1, 2], pa.int64()),
    "price": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
    "day": pa.array([dt.date(2024, 2, 29), dt.date(1969, 12, 31)], pa.date32()),
    "at": pa.array([dt.datetime(2024, 1, 1, 0, 0, 0, 1000), None], pa.timestamp("ms")),
    "seen": pa.array([dt.datetime(2024, 1, 1), dt.datetime(1999, 1, 1)], pa.timestamp("us", "UTC")),
    "share": pa.array([0.5, None], pa.float64()),
    "code": pa.array(["007", None], pa.string()),
    "note": pa.array(["NA", ""], pa.string()),
    "ok": pa.array([True, None], pa.bool_()),
}


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "json"])
def test_rows_read_into_file_can_be_written_to_table(run, tmp_path, suffix):
    source = tmp_path / "rows.parquet"
    pq.write_table(pa.table(ROWS), source)
    for name in ("db.one", "db.two"):
        run("create", name, "--like", str(source))
    run("write", "db.one", str(source))
    out = str(tmp_path / f"out.{suffix}")
    run("read", "db.one", "--out", out)
    run("write", "db.two", out)
    final = tmp_path / "final.parquet"
    run("read", "db.two", "--out", str(final))
    assert pq.read_table(final).to_pylist() == pa.table(ROWS).to_pylist()


def test_files_of_different_columns_are_refused_first(run, rows_file, tmp_path):
    create(run)
    for name, columns in (
        ("fewer", {"id": [3]}),
        ("more", {"id": [3], "name": ["c"], "extra": [1]}),
        ("others", {"id": ["3"], "name": ["c"]}),
    ):
        other = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(columns), other)
        output = run("write", "db.t", rows_file, str(other), code=2)
        assert f"{name}.parquet" in output
        assert len(output.strip().splitlines()) == 1
    assert "no snapshot" in run("plan", "db.t")


@pytest.mark.parametrize("kept", [0.5, 0.98])
def test_damaged_file_is_named_in_one_line_and_nothing_is_committed(run, rows_file, tmp_path, kept):
    create(run)
    whole = Path(rows_file).read_bytes()
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(whole[: int(len(whole) * kept)])
    output = run("write", "db.t", rows_file, str(damaged), code=9)
    assert "damaged.parquet" in output
    assert len(output.strip().splitlines()) == 1
    assert "no snapshot" in run("plan", "db.t")


def test_file_damaged_in_its_pages_is_named_too(run, tmp_path):
    run("create", "db.n", "--column", "id BIGINT")
    path = tmp_path / "pages.parquet"
    pq.write_table(pa.table({"id": range(10_000)}), path, compression="none")
    content = bytearray(path.read_bytes())
    content[4:200] = b"\xff" * 196
    path.write_bytes(content)
    output = run("write", "db.n", str(path), code=9)
    assert "pages.parquet" in output
    assert len(output.strip().splitlines()) == 1
    assert "no snapshot" in run("plan", "db.n")


def test_unfit_value_of_text_file_is_reported_with_file(run, tmp_path):
    create(run)
    path = tmp_path / "rows.csv"
    path.write_text("id,name\n1,a\nx,b\n")
    output = run("write", "db.t", str(path), code=9)
    assert "rows.csv" in output
    assert "'x'" in output
    assert len(output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("out", "columns", "message"),
    [("nowhere/o.csv", "id", "is no folder"), ("o.csv", "id,tags", "tags"), (".", "id", "none of")],
)
def test_failed_write_is_one_clear_line(run, tmp_path, out, columns, message):
    run("create", "db.n", "--column", "id INT", "--column", "tags ARRAY<INT>")
    output = run("read", "db.n", "--columns", columns, "--out", str(tmp_path / out), code=2)
    assert message in output
    assert len(output.strip().splitlines()) == 1


def test_bytes_become_base64_in_json(run, tmp_path):
    source = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"raw": [b"\x00\xff"]}), source)
    run("create", "db.b", "--like", str(source))
    run("write", "db.b", str(source))
    run("read", "db.b", "--out", str(tmp_path / "o.json"))
    assert json.loads((tmp_path / "o.json").read_text()) == {"raw": "AP8="}


def test_terminal_shows_whether_there_is_more(run, rows_file):
    create(run)
    run("write", "db.t", rows_file)
    assert run("read", "db.t", "--limit", "2").endswith("2 rows\n")
    assert "1 row (use --limit" in run("read", "db.t", "--limit", "1")
    assert "0 rows (use --limit" in run("read", "db.t", "--limit", "0")
    assert "Invalid value" in run("read", "db.t", "--limit", "-1", code=2)


def test_values_are_shown_as_they_are(run, tmp_path):
    text = "[bold]" + "x" * 500
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1], "name": [text]}), path)
    create(run)
    run("write", "db.t", str(path))
    assert text in run("read", "db.t")


def test_column_is_asked_for_once(run, rows_file):
    create(run)
    assert "twice" in run("read", "db.t", "--columns", "id,id", code=2)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_reads_and_writes_on_request(run, rows_file, monkeypatch):
    monkeypatch.setenv("SPARK_MASTER", "local[2]")
    create(run)
    assert "2 written" in run("write", "db.t", rows_file, "--executor", "spark")
    assert "│ b" in run("read", "db.t", "--executor", "spark", "--where", "id = 2")


def test_secrets_of_table_are_not_printed(run):
    create(run, "--option", "s3.secret-key=abc", "--option", "kafka.sasl.jaas.config=user=abc")
    for arguments in (("schema", "db.t"), ("schema", "db.t", "--json")):
        shown = run(*arguments)
        assert "s3.secret-key" in shown
        assert "abc" not in shown


def test_storage_options_come_from_environment_and_from_file(tmp_path, monkeypatch):
    path = tmp_path / "storage"
    path.write_text("# of the lake\ns3.secret-key = from file\n\ns3.endpoint=http://file\n")
    monkeypatch.setenv("PAIMON_S3_SECRET_KEY", "from environment")
    monkeypatch.setenv("PAIMON_S3_ACCESS_KEY", "key")
    assert {**environment_options(), **options_of_file(str(path))} == {
        "s3.access-key": "key",
        "s3.secret-key": "from file",
        "s3.endpoint": "http://file",
    }
    path.write_text("fine=1\nsecret\n")
    with pytest.raises(InvalidInputError, match="Line 2") as caught:
        options_of_file(str(path))
    assert "secret" not in str(caught.value)


def test_verbose_shows_log_and_traceback_of_error(run, rows_file, caplog):
    caplog.set_level("WARNING", "paimon_assets")  # which is as it was again afterwards
    caplog.handler.setLevel("DEBUG")
    create(run)
    assert "Traceback" not in run("read", "s3://me:hidden7@bucket/t", code=2)
    run("write", "db.t", rows_file)
    assert not caplog.records
    run("--verbose", "write", "db.t", rows_file)
    assert "flushing" in caplog.text
    shown = run("-v", "read", "s3://me:hidden7@bucket/t", code=2)
    assert shown.startswith("Traceback")
    assert shown.splitlines()[-1].startswith("Error: Path 's3://******@bucket/t' carries a key")
    assert "hidden7" not in shown


def test_errors_have_codes_and_with_json_are_objects(run):
    create(run)
    refused = json.loads(run("read", "db.tt", "--json", code=3))
    assert refused["kind"] == "table-not-found"
    assert (refused["error"], refused["exit_code"]) == ("NotFoundError", 3)
    assert "Did you mean 'db.t'?" in refused["message"]
    assert "Did you mean 'name'?" in run("read", "db.t", "--columns", "nam", code=3)
    run("create", "db.t", "--column", "a INT", code=4)


def test_unknown_option_is_refused_or_forced(run):
    arguments = ("create", "db.t", "--column", "a INT", "--option", "bucket-kei=a")
    assert "Did you mean 'bucket-key'?" in run(*arguments, code=2)
    assert "Did you mean 'bucket-key'?" in run(*arguments[:-2], "--set", "bucket-kei=a", code=2)
    run(*arguments, "--any-option")
    assert "bucket-kei" in run("schema", "db.t")
    assert "--any-option" in run("alter", "db.t", "--set", "target-file-sice=1 mb", code=2)
    run("alter", "db.t", "--set", "my.engine=3")


def test_rows_come_from_standard_input(run):
    run("create", "db.t", "--column", "id BIGINT", "--column", "name STRING")
    assert "2 rows in" in run("write", "db.t", "-", input='{"id": 1}\n{"id": 2, "name": "b"}\n')
    assert "1 row in" in run("write", "db.t", "-", "--format", "csv", input="id,name\n3,c\n")
    assert "3 rows" in run("read", "db.t")


def test_statements_come_from_file_or_prompt(run, tmp_path):
    path = tmp_path / "statements.sql"
    path.write_text("create database d; -- ;\ncreate table d.t (id int);\nshow tables in d;")
    assert "t" in run("sql", "-f", str(path))
    typed = "show tables\nin d;\nselect * from d.no;\nselect count(*) as n from d.t;\nexit\n"
    asked = run("sql", input=typed)
    assert "Error: " in asked
    assert "n" in asked
    run("sql", "select 1", "-f", str(path), code=2)


def test_doctor_looks_at_storage_and_leaves_nothing(run, tmp_path):
    create(run)
    before = sorted(path.name for path in (tmp_path / "w").iterdir())
    findings = {line["checked"]: line["state"] for line in json.loads(run("doctor", "--json"))}
    assert findings["commits"] == findings["catalog"] == "ok"
    assert sorted(path.name for path in (tmp_path / "w").iterdir()) == before


def test_orphans_are_cleaned_and_statistics_computed(run, rows_file, tmp_path):
    create(run)
    run("write", "db.t", rows_file)
    orphan = tmp_path / "w" / "db.db" / "t" / "bucket-0" / ORPHAN
    orphan.write_bytes(b"")
    os.utime(orphan, (10**9, 10**9))
    assert "clean_orphans" in run("clean", "db.t", "--dry-run")
    assert orphan.exists()
    run("clean", "db.t", "--yes")
    assert not orphan.exists()
    assert "snapshot 2" in run("analyze", "db.t")
