"""Rows deleted and updated on the command line."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def run(tmp_path, invoke):
    def confirm(*arguments, **more):
        yes = ["--yes"] if arguments[0] in ("delete", "update") else []
        return invoke(*arguments, *yes, **more)

    invoke("create", "db.t", "--column", "id BIGINT", "--column", "name STRING")
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]}), path)
    invoke("write", "db.t", str(path))
    return confirm


def test_rows_are_counted_deleted_and_updated(run):
    assert "2 rows match" in run("delete", "db.t", "--where", "id > 1", "--dry-run")
    said = run("update", "db.t", "--set", "name = coalesce(name, 'x') || '!'", "--where", "id < 3")
    assert "2 rows updated in snapshot 2" in said
    assert "1 row deleted in snapshot 3" in run("delete", "db.t", "--where", "name = 'x!'")
    assert "0 rows match" in run("delete", "db.t", "--where", "name = 'x!'")
    where = ("--where", "id = 1")
    assert "COLUMN = EXPRESSION" in run("update", "db.t", "--set", "name", *where, code=2)
    assert "--where" in run("update", "db.t", "--set", "name = 'x'", code=2)
    upper = ("--set", "name = upper(name)", *where)
    assert "UPPER(name)" in run("update", "db.t", *upper, code=2)
    run("update", "db.t", "--set", "name = 'x'", "--all", *where, code=2)
    assert "2 rows match" in run("update", "db.t", "--set", "name = 'x'", "--all", "--dry-run")


def test_semicolons_of_csv_are_named_and_read(invoke, tmp_path):
    invoke("create", "db.t", "--column", "id BIGINT", "--column", "name STRING")
    path = tmp_path / "rows.csv"
    path.write_text("id;name\n1;a,b\n")
    assert "has one column, 'id;name'. Give --sep ';'" in invoke("write", "db.t", str(path), code=2)
    invoke("write", "db.t", str(path), "--sep", ";")
    assert json.loads(invoke("read", "db.t", "--json")) == [{"id": 1, "name": "a,b"}]


def test_update_asks_with_number_of_rows(run, invoke):
    asked = invoke("update", "db.t", "--set", "name = 'x'", "--where", "id > 1", input="n", code=11)
    assert "2 rows of db.t, for which id > 1, will be changed. Go on?" in asked


def test_plan_leaves_as_splits_and_is_read_from_them(run, tmp_path):
    splits = str(tmp_path / "splits")
    assert "1 split, 1 file" in run("plan", "db.t", "--out", splits, "--where", "id > 1")
    run("delete", "db.t", "--where", "id = 3")
    kept = run("read", "db.t", "--splits", splits, "--where", "id > 1")
    assert "2 rows" in kept
    run("create", "db.other", "--column", "id BIGINT")
    assert "none of table 'db.other'" in run("read", "db.other", "--splits", splits, code=2)
    run("plan", "db.t", "--out", splits, "--split-version", "3")
    assert "2 rows" in run("read", "db.t", "--splits", splits)


def test_table_is_copied_as_of_snapshot(run):
    run("delete", "db.t", "--where", "id = 2")
    assert "2 rows copied" in run("copy", "db.t", "new.all")
    said = json.loads(
        run("copy", "db.t", "new.one", "--snapshot", "1", "--where", "id > 1", "--json")
    )
    assert said == {"table": "new.one", "snapshot_id": 1, "rows_written": 2}
    assert json.loads(run("read", "new.one", "--json")) == [
        {"id": 2, "name": None},
        {"id": 3, "name": "c"},
    ]
    assert "exists already" in run("copy", "db.t", "new.all", code=4)
    assert len(json.loads(run("read", "new.all", "--json"))) == 2


def test_copy_has_keys_and_options_and_its_own_place(run, tmp_path):
    run("create", "db.k", "--column", "id BIGINT", "--column", "v INT", "--primary-key", "id",
        "--option", "bucket=2", "--comment", "numbers")  # fmt: skip
    path = tmp_path / "k.parquet"
    pq.write_table(pa.table({"id": [1, 1, 2], "v": pa.array([1, 2, 3], pa.int32())}), path)
    run("write", "db.k", str(path))
    assert "2 rows copied" in run("copy", "db.k", "db.l")
    first, second = (json.loads(run("schema", name, "--json")) for name in ("db.k", "db.l"))
    for each in (first, second):
        each.pop("timeMillis")
    assert first == second
    assert json.loads(run("read", "db.l", "--json")) == json.loads(run("read", "db.k", "--json"))


def test_branch_is_copied_to_table_of_its_own(run):
    run("tag", "create", "db.t", "one", "--snapshot", "1")
    run("branch", "create", "db.t", "b", "--tag", "one")
    run("delete", "db.t$branch_b", "--where", "id > 1")
    assert "1 row copied" in run("copy", "db.t$branch_b", "db.b")
    assert json.loads(run("read", "db.b", "--json")) == [{"id": 1, "name": "a"}]
    assert len(json.loads(run("read", "db.t", "--json"))) == 3


def test_bytes_and_times_leave_as_json_and_come_back(run, invoke, tmp_path):
    path = tmp_path / "rows.parquet"
    kinds = {"b": pa.binary(), "t": pa.timestamp("us"), "d": pa.date32(), "m": pa.int32()}
    values = [b"\xff\x00", None, b""], [0, 1, None], [None, 3, 4], [1, None, 2]
    columns = [pa.array(each, kind) for each, kind in zip(values, kinds.values(), strict=True)]
    pq.write_table(pa.table(columns, names=[*kinds]), path)
    for name in ("db.one", "db.two"):
        invoke(
            "create", name, "--column", "b BYTES", "--column", "t TIMESTAMP(6)",
            "--column", "d DATE", "--column", "m INT",
        )  # fmt: skip
    run("write", "db.one", str(path))
    out = str(tmp_path / "rows.json")
    run("read", "db.one", "--out", out)
    run("write", "db.two", out)
    assert json.loads(run("read", "db.two", "--json")) == json.loads(
        run("read", "db.one", "--json")
    )


def test_long_value_is_cut_in_grid_and_whole_in_json(run, invoke, tmp_path):
    invoke("create", "db.long", "--column", "s STRING")
    pq.write_table(pa.table({"s": ["x" * 100_000]}), tmp_path / "long.parquet")
    invoke("write", "db.long", str(tmp_path / "long.parquet"))
    assert invoke("read", "db.long").count("x") == 4_000
    assert invoke("read", "db.long", "--json").count("x") == 100_000
