"""What keeps a table healthy, and how lists look, on the command line."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from paimon_assets.cli import output
from paimon_assets.cli.main import main
from paimon_assets.engine.table.api import open_catalog
from tests.testkit.metadata_tables import ORPHAN


@pytest.fixture
def run(tmp_path, invoke):
    invoke(
        "create", "db.t", "--column", "day STRING", "--column", "id BIGINT", "--column",
        "v DOUBLE", "--partition-by", "day", "--option", "bucket=-1",
    )  # fmt: skip
    for number in range(3):
        path = tmp_path / f"{number}.parquet"
        day = ["2024-01-01", f"2024-01-0{number + 1}"]
        pq.write_table(pa.table({"day": day, "id": [1, number], "v": [0.5, float("nan")]}), path)
        invoke("write", "db.t", str(path))
    return invoke


def test_lists_fit_terminal_of_80_columns(run, monkeypatch):
    monkeypatch.setattr(output, "_WIDTH_OF_PIPES", 80)
    for command in ("snapshots", "partitions"):
        shown = run(command, "db.t")
        assert max(map(len, shown.splitlines())) <= 80
    assert "APPEND" in run("snapshots", "db.t", "--limit", "1")
    [newest] = json.loads(run("snapshots", "db.t", "--limit", "1", "--json"))
    assert (newest["snapshot_id"], newest["total_record_count"]) == (3, 6)


def test_partitions_are_found_by_pattern(run):
    listed = json.loads(run("partitions", "db.t", "--json"))
    assert [row["partition"] for row in listed] == [f"day=2024-01-0{n}" for n in (1, 2, 3)]
    assert "1 row\n" in run("partitions", "db.t", "--pattern", "day=*-03")


def test_json_output_is_json_throughout(run, tmp_path):
    [first, *_] = json.loads(run("read", "db.t$schemas", "--json"))
    assert first["fields"][0] == {"id": 0, "name": "day", "type": "STRING"}
    assert first["partition_keys"] == ["day"]
    rows = json.loads(run("read", "db.t", "--json", "--where", "id = 2"))
    assert rows == [{"day": "2024-01-03", "id": 2, "v": "nan"}]
    assert json.loads(run("read", "db.t", "--json", "--where", "id = 7")) == []
    assert len(json.loads(run("read", "db.t", "--json", "--limit", "2"))) == 2
    planned = json.loads(run("plan", "db.t", "--json", "--where", "day = '2024-01-03'"))
    assert [split["bucket"] for split in planned["splits"]] == ["day=2024-01-03/bucket-0"]
    for group in ("tag", "branch", "consumer"):
        assert json.loads(run(group, "list", "db.t", "--json")) == []
    run("tag", "create", "db.t", "v1")
    [tag] = json.loads(run("tag", "list", "db.t", "--json"))
    assert (tag["tag_name"], tag["snapshot_id"]) == ("v1", 3)
    written = json.loads(run("write", "db.t", str(tmp_path / "0.parquet"), "--json"))
    assert written["rows_written"] == 2


@pytest.mark.parametrize("file_format", ["json", "csv", "arrow", "parquet"])
def test_rows_go_to_pipe_and_nothing_else_does(run, tmp_path, file_format):
    command = [
        *("-w", str(tmp_path / "w"), "read", "db.t", "--where", "day = '2024-01-02'"),
        *("--out", "-", "--format", file_format),
    ]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    piped = result.stdout_bytes
    match file_format:
        case "json":
            found = [json.loads(line)["id"] for line in piped.splitlines()]
        case "csv":
            found = pa.csv.read_csv(io.BytesIO(piped))["id"].to_pylist()
        case "arrow":
            found = pa.ipc.open_stream(piped).read_all()["id"].to_pylist()
        case _:
            found = pq.read_table(io.BytesIO(piped))["id"].to_pylist()
    assert found == [1]
    assert result.stderr == "1 row in -\n"


def test_splits_go_to_pipe(run, tmp_path):
    result = CliRunner().invoke(main, ["-w", str(tmp_path / "w"), "plan", "db.t", "--out", "-"])
    path = tmp_path / "splits"
    path.write_bytes(result.stdout_bytes)
    assert "6 rows" in run("read", "db.t", "--splits", str(path))


def test_table_is_compacted(run):
    planned = json.loads(run("compact", "db.t", "--strategy", "full", "--dry-run", "--json"))
    assert planned["files"] == 3
    done = run("compact", "db.t", "--strategy", "full", "--where", "day = '2024-01-01'")
    assert "snapshot 4: merged 3 files (" in done
    assert ") into 1 (" in done
    assert "nothing to compact" in run("compact", "db.t", "--strategy", "full")
    sort = ("compact", "db.t", "--strategy", "sort", "--order-by", "id", "--json")
    assert json.loads(run(*sort))["snapshot_id"] == 5


def test_snapshots_expire_after_question(run):
    keep = ("expire", "db.t", "--keep", "1")
    planned = json.loads(run(*keep, "--dry-run", "--json"))
    by_task = {line["task"]: line["count"] for line in planned}
    assert by_task["expire_snapshots"] == 2
    asked = run(*keep, input="n\n", code=11)
    assert "expire_snapshots" in asked
    assert len(json.loads(run("snapshots", "db.t", "--json"))) == 3
    done = json.loads(run(*keep, "--yes", "--json"))
    assert {line["task"]: line["count"] for line in done} == by_task
    assert len(json.loads(run("snapshots", "db.t", "--json"))) == 1
    assert "duration" in run("expire", "db.t", "--older-than", "long", code=2)


def test_snapshots_before_one_expire_and_no_other(run):
    def expire(*arguments):
        done = json.loads(run("expire", "db.t", "--yes", "--json", *arguments))
        counts = {line["task"]: line["count"] for line in done}
        rows = json.loads(run("snapshots", "db.t", "--json"))
        return counts["expire_snapshots"], sorted(row["snapshot_id"] for row in rows)

    assert "99" in run("expire", "db.t", "--before", "99", "--yes", code=3)
    assert "--keep" in run("expire", "db.t", "--before", "2", "--keep", "1", code=2)
    assert expire("--before", "1") == (0, [1, 2, 3])
    assert expire("--before", "2", "--option", "snapshot.num-retained.min=3") == (1, [2, 3])
    assert expire("--before", "3", "--option", "snapshot.expire.limit=1") == (1, [3])
    assert "1" in run("expire", "db.t", "--before", "1", "--yes", code=3)


def test_file_that_is_gone_or_cut_is_fault(run, tmp_path):
    assert "db.t: 0 faults" in run("check", "db.t", "--rows", "--all-snapshots")
    table = open_catalog(str(tmp_path / "w")).get_table("db.t")
    gone, cut, *_ = [table.state.file_path(entry) for entry in table.state.live_files()]
    size = Path(cut).stat().st_size
    Path(cut).write_bytes(b"0123456789")
    assert "has 10 bytes instead of" in run("check", "db.t", code=1)
    Path(gone).unlink()
    faults = json.loads(run("check", "db.t", "--json", code=1))["faults"]
    assert sorted(faults) == sorted(
        [f"{gone}: is not there", f"{cut}: has 10 bytes instead of {size:,}"]
    )


def test_rows_that_cannot_be_read_are_fault(run, tmp_path):
    table = open_catalog(str(tmp_path / "w")).get_table("db.t")
    [entry, *_] = table.state.live_files()
    path = Path(table.state.file_path(entry))
    path.write_bytes(b"\0" * path.stat().st_size)
    assert "0 faults" in run("check", "db.t")
    assert path.name in run("check", "db.t", "--rows", code=1)


def test_overwrite_asks(run, tmp_path):
    path = str(tmp_path / "2.parquet")
    assert "are replaced" in run("write", "db.t", path, "--overwrite", code=11)
    run("write", "db.t", path, "--overwrite", "--yes")
    rows = json.loads(run("read", "db.t", "--json"))
    assert sorted((row["day"][-2:], row["id"]) for row in rows) == [("01", 1), ("02", 1), ("03", 2)]


def test_query_is_run_by_duckdb(run, tmp_path):
    pytest.importorskip("duckdb")
    query = "select day, count(*) as n from db.t where id < 2 group by day order by day"
    rows = [{"day": "2024-01-01", "n": 4}, {"day": "2024-01-02", "n": 1}]
    assert json.loads(run("sql", query, "--json")) == rows
    assert json.loads(run("sql", query, "--json", "--limit", "1")) == rows[:1]
    assert "2024-01-02" in run("sql", query)
    old = 'select max(id) from t version as of 2 union all select count(*) from "t$snapshots"'
    assert "3" in run("sql", old, "--database", "db")
    out = tmp_path / "out.parquet"
    run("sql", query, "--out", str(out))
    assert pq.read_table(out).to_pylist() == rows
    assert "Cannot parse" in run("sql", "select from from", code=2)
    assert "Expected a statement" in run("sql", "hello", code=2)


def test_results_are_shown_as_json(run):
    made = json.loads(run("tag", "create", "db.t", "v1", "--snapshot", "1", "--json"))
    assert made == {"tag": "v1", "snapshot_id": 1}
    matched = json.loads(run("delete", "db.t", "--where", "id = 2", "--dry-run", "--json"))
    assert (matched["snapshot_id"], matched["rows_matched"]) == (None, 1)
    done = json.loads(run("delete", "db.t", "--where", "id = 2", "--yes", "--json"))
    assert (done["snapshot_id"], done["rows_matched"]) == (4, 1)
    back = json.loads(run("rollback", "db.t", "--tag", "v1", "--yes", "--json"))
    assert back == {"snapshot_id": 1, "snapshots": 3, "tags": 0}
    assert json.loads(run("drop", "db.t", "--yes", "--json")) == {"dropped": "db.t"}


def test_new_rows_are_followed(run, tmp_path):
    def follow(*arguments):
        said = run("follow", "db.t", "--once", "--columns", "id", *arguments)
        return [json.loads(line)["id"] for line in said.splitlines()]

    assert follow() == []
    assert sorted(follow("--from", "earliest")) == [0, 1, 1, 1, 1, 2]
    assert sorted(follow("--from", "3", "--where", "id > 0")) == [1, 2]
    consumer = ("--consumer", "etl", "--from", "earliest")
    assert len(follow(*consumer)) == 6
    assert follow(*consumer) == []
    run("write", "db.t", str(tmp_path / "0.parquet"))
    assert sorted(follow(*consumer)) == [0, 1]
    assert "earliest, latest" in run("follow", "db.t", "--from", "here", code=2)


def test_bar_is_shown_on_terminal_alone(run, tmp_path):
    del run
    reading, terminal = os.openpty()
    command = [
        *(sys.executable, "-m", "paimon_assets", "-w", str(tmp_path / "w")),
        *("compact", "db.t", "--strategy", "full"),
    ]
    environment = {**os.environ, "TERM": "xterm"}
    pipes = {"stdout": subprocess.PIPE, "stderr": terminal}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        os.close(terminal)
        shown = b""
        # A terminal that nobody reads is full after some bars, and the command waits for it.
        with contextlib.suppress(OSError):  # closed by the command's end
            while more := os.read(reading, 65_536):
                shown += more
        printed = process.stdout.read()
    os.close(reading)
    assert process.returncode == 0
    assert b"compacting" in shown
    assert printed.startswith(b"snapshot 4: merged 3 files (")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE db.t",
        "DROP DATABASE db CASCADE",
        "TRUNCATE TABLE db.t",
        "DELETE FROM db.t",
        "UPDATE db.t SET v = 1",
        "CALL sys.rollback('db.t', '1')",
    ],
)
def test_statement_that_destroys_asks_first(run, statement):
    before = run("read", "db.t", "--json")
    assert "Give --yes" in run("sql", statement, code=11)
    assert "the answer was no" in run("sql", statement, code=11, input="n\n")
    assert run("read", "db.t", "--json") == before
    assert "Go on?" in run("sql", statement, input="y\n")


def test_statement_that_adds_does_not_ask(run):
    run("sql", "CALL sys.create_tag('db.t', 'kept')")
    run("sql", "ALTER TABLE db.t ADD COLUMN note STRING")
    run("sql", "SHOW TABLES IN db")


def test_health_ends_with_1_where_limit_is_reached(run):
    assert "db.t" in run("health")
    [row] = json.loads(run("health", "db.*", "--json"))
    assert (row["score"], row["reason"]) == (100, None)
    run("health", "db.t", "--score", "100", "--record", "db.history", code=1)
    assert json.loads(run("read", "db.history", "--json"))[0]["table_name"] == "t"
    run("health", "db.none", code=3)
    [looked] = json.loads(run("health", "db.t", "--orphans", "10", "--json"))
    assert (row["orphan_bytes"], looked["orphan_bytes"]) == (None, 0)


@pytest.fixture
def lake(invoke, tmp_path):
    """Make tables with snapshots to expire, one of which is damaged, and return the call."""
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1]}), rows)
    keep = [f"--option=snapshot.{key}" for key in ("num-retained.min=1", "num-retained.max=1")]
    for name in ("a.old", "a.bad", "b.old"):
        invoke("create", name, "--column", "id BIGINT", *keep)
        for _ in range(3):
            invoke("write", name, str(rows))
    invoke("create", "b.new", "--column", "id BIGINT")
    for path in (tmp_path / "w" / "a.db" / "bad" / "snapshot").glob("snapshot-*"):
        path.write_text("{")
    return invoke


def snapshot_counts(lake):
    names = ("a.old", "b.old")
    return [len(json.loads(lake("snapshots", name, "--json"))) for name in names]


def test_all_tables_are_maintained_and_bad_one_stops_no_other(lake):
    def by_table(*arguments, code):
        lines = json.loads(lake("maintain", *arguments, "--json", code=code, output="stdout"))
        return {(line["table"], line["task"]): (line["count"], line["note"]) for line in lines}

    due = by_table("--dry-run", code=1)
    why = "by snapshot.num-retained.max = 1, snapshot.num-retained.min = 1"
    assert due["a.old", "expire_snapshots"] == due["b.old", "expire_snapshots"] == (2, why)
    assert "b.new" not in {table for table, _ in due}
    assert "snapshot-3" in due["a.bad", "failed"][1]
    assert snapshot_counts(lake) == [3, 3]
    done = by_table("--yes", code=1)
    assert [done[name, "expire_snapshots"][0] for name in ("a.old", "b.old")] == [3, 3]
    assert ("a.bad", "failed") in done
    assert snapshot_counts(lake) == [1, 1]


def test_maintenance_shows_due_work_and_asks(lake, tmp_path):
    asked = lake("maintain", "b.*", "--json", code=11, input="n\n")
    assert "expire_snapshots" in asked
    assert "These tasks run on 1 table. Go on?" in asked
    assert snapshot_counts(lake) == [3, 3]
    orphan = tmp_path / "w" / "b.db" / "old" / "bucket-0" / ORPHAN
    orphan.write_bytes(b"12")
    os.utime(orphan, (1e9, 1e9))
    assert "counted, not deleted" in lake("maintain", "b.old", "b.*", input="y\n")
    assert snapshot_counts(lake) == [3, 1]
    assert orphan.exists()


@pytest.mark.parametrize("arguments", [(), ("--dry-run",), ("--yes",)])
def test_maintenance_without_due_work_asks_nothing(lake, arguments):
    assert lake("maintain", "b.new", *arguments, input="") == "nothing is due for 1 table\n"
    assert lake("maintain", "b.new", *arguments, "--json", input="") == "[]\n"
    command = lake("expire", "b.new", *arguments, input="")
    assert command == "nothing is due for b.new\n"


def test_maintenance_asks_for_no_orphan_that_it_only_counts(lake, tmp_path):
    lake("maintain", "b.old", "--yes")
    orphan = tmp_path / "w" / "b.db" / "old" / "bucket-0" / ORPHAN
    orphan.write_bytes(b"12")
    os.utime(orphan, (1e9, 1e9))
    shown = lake("maintain", "b.old", input="")
    assert "counted, not deleted" in shown
    assert "Go on?" not in shown


def test_maintenance_of_table_that_is_not_there(lake, tmp_path):
    done = lake("maintain", "b.none", "b.old", "--yes", code=1)
    assert "does not exist" in done
    assert snapshot_counts(lake) == [3, 1]
    assert "No table fits '*.z*'" in lake("maintain", "*.z*", "--yes", code=2)
    assert "Database 'c' does not exist" in lake("maintain", "c.*", "--yes", code=3)
    assert "names no table" in lake("maintain", "old", "--yes", code=2)
    missing = CliRunner().invoke(main, ["-w", str(tmp_path / "none"), "maintain", "--yes"])
    assert missing.exit_code == 3


@pytest.mark.parametrize("is_terminal", [True, False])
def test_terminal_shows_progress_and_rest(monkeypatch, is_terminal):
    read_end, write_end = os.openpty() if is_terminal else os.pipe()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with os.fdopen(write_end, "w") as terminal, os.fdopen(read_end, "rb", 0) as shown:
        monkeypatch.setattr(sys, "stderr", terminal)
        with output.progress("copying", 400) as advance:
            for _ in range(3):
                advance(100)
        terminal.write("done")
        terminal.flush()
        text = b""
        while not text.endswith(b"done"):
            text += shown.read(65536)
    if is_terminal:
        assert b"copying" in text
        assert b"300 rows" in text
        assert b"left" in text
    else:
        assert text == b"done"


def test_cleaning_nothing_asks_no_question(run):
    shown = run("clean", "db.t", input="")
    assert "Go on?" not in shown


def test_time_that_does_not_parse_is_error_of_its_parameter(run):
    assert "Invalid value for --timestamp: 'yesterday'" in run(
        "read", "db.t", "--timestamp", "yesterday", code=2
    )


@pytest.mark.parametrize("arguments", [["--yes"], []])
@pytest.mark.parametrize("command", ["expire", "maintain"])
def test_idle_consumer_holds_no_snapshot(lake, tmp_path, command, arguments):
    lake("consumer", "reset", "b.old", "idle", "1")
    assert "held by consumer 'idle'" in lake(command, "b.old", *arguments, input="y\n")
    lake("alter", "b.old", "--set", "consumer.expiration-time=1 h")
    [consumer] = (tmp_path / "w" / "b.db" / "old" / "consumer").iterdir()
    os.utime(consumer, (1e9, 1e9))
    lake(command, "b.old", *arguments, input="y\n")
    assert snapshot_counts(lake) == [3, 1]
    assert not consumer.exists()


@pytest.mark.parametrize("arguments", [["--yes"], []])
def test_analyze_runs_as_task_of_expire(lake, arguments):
    shown = lake("expire", "b.old", "--task", "analyze", *arguments, input="y\n")
    assert "3 rows" in shown
    [newest] = json.loads(lake("snapshots", "b.old", "--limit", "1", "--json"))
    assert newest["commit_kind"] == "ANALYZE"
