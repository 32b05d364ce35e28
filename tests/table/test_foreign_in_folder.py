"""Files of other people in a table's folder: cleaning leaves them, and dropping asks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError
from paimon_assets.engine.spec.evolution.schema_change import set_option
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog, open_catalog
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from paimon_assets.server.serve import ServeSettings
from tests.testkit.metadata_tables import ORPHAN, FixedClock, foreign_files
from tests.testkit.rest_server import serving
from tests.testkit.tables import new_catalog_in, new_table, write

_LATER = FixedClock(now=4_000_000_000_000)
_FOLDERS = (
    "", "landing", "bucket-0", "bucket-1", "manifest", "index", "statistics", "ingestion", "tag",
    "snapshot", "schema", "branch", "branch/branch-b/snapshot", "day=1/bucket-0", "metadata",
)  # fmt: skip
_UUID = ORPHAN[len("data-") : -len("-0.parquet")]
_ENDINGS = ("", ".parquet", ".csv", ".avro", ".orc", ".json", ".tmp", ".crc", ".index")
_FOREIGN_NAMES = st.one_of(
    st.text(alphabet="abcz-_. 0é", min_size=1, max_size=12).map("x{}".format),
    st.sampled_from(
        [
            "notes.txt", ".hidden", "README", "data-2024.csv", "manifest-old", "manifest-list",
            "bucket-0", "data.parquet", "changelog", "index", "stat-x", "snapshot-x", "LATEST.bak",
            f"part-00000-{_UUID}-c000.snappy.parquet", f"{_UUID}.parquet", f"0-{_UUID}-1.parquet",
            f"copy-of-{ORPHAN}", f"manifest-{_UUID}-0~", f".{ORPHAN}.swp", "ledger-1.json", "tag",
        ]
    ),
    st.sampled_from(_ENDINGS).map("data-of-others{}".format),
)  # fmt: skip
_FOREIGN = st.tuples(st.sampled_from(_FOLDERS), _FOREIGN_NAMES).filter(
    lambda drawn: drawn[0] or drawn[1] not in {"bucket-0", "changelog", "index", "tag"}
)
"""Folder and name; no file has the name of a directory of the table."""
_PROGRAM = str(Path(sys.executable).with_name("paimon-assets"))
_SCHEMA = Schema.of({"id": "BIGINT"})


@given(st.lists(_FOREIGN, min_size=1, max_size=6))
@example([("bucket-0", "ledger-1.json"), ("ingestion", "ledger-1.json")])
def test_cleaning_and_plain_drop_keep_foreign_files(tmp_path_factory, drawn):
    catalog = new_catalog_in(tmp_path_factory.mktemp("w"))
    table = new_table(catalog, _SCHEMA, (1,))
    home, own = Path(table.path), set(_files(table.path))
    foreign = {f"{folder}/{name}".lstrip("/") for folder, name in drawn}
    foreign = {name for name in foreign if not (home / name).is_dir()}
    for name in (*foreign, f"bucket-0/{ORPHAN}"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("theirs")
    cleaned = clean_orphan_files(table._store, dry_run=False, clock=_LATER)
    assert [status.name for status in cleaned.files] == [ORPHAN]
    assert set(cleaned.foreign) <= foreign
    assert {name for name in foreign if name.startswith(("bucket-", "manifest/"))} <= set(
        cleaned.foreign
    )
    if not foreign:
        return
    with pytest.raises(InvalidInputError, match="foreign file") as caught:
        catalog.drop_table("db.t")
    assert caught.value.details["files"] == len(foreign)
    assert min(foreign) in str(caught.value)
    assert set(_files(table.path)) == own | foreign
    catalog.drop_table("db.t", cascade=True)
    assert not home.exists()


@given(st.lists(_FOREIGN, min_size=1, max_size=3))
def test_new_table_refuses_occupied_folder(tmp_path_factory, drawn):
    catalog = new_catalog_in(tmp_path_factory.mktemp("w"))
    home = Path(catalog.create_table("db.other", _SCHEMA).path).with_name("t")
    for folder, name in drawn:
        if not (home / folder / name).is_dir():
            (home / folder).mkdir(parents=True, exist_ok=True)
            (home / folder / name).write_text("theirs")
    before = set(_files(str(home)))
    with pytest.raises(InvalidInputError, match="a new table takes a folder that is empty"):
        catalog.create_table("db.t", _SCHEMA, ignore_if_exists=True)
    assert set(_files(str(home))) == before


def _files(home: str) -> list[str]:
    return [
        str(Path(root, name).relative_to(home))
        for root, _, names in os.walk(home)
        for name in names
    ]


@pytest.fixture
def catalog(tmp_path) -> TableCatalog:
    return new_catalog_in(tmp_path / "w")


def test_new_table_accepts_folder_with_leftovers(catalog):
    home = Path(catalog.create_table("db.other", _SCHEMA).path).with_name("t")
    left = (
        f"bucket-0/{ORPHAN}",
        f"manifest/manifest-list-{_UUID}-0",
        f"schema/.schema-0.{'0' * 32}.tmp",
        "snapshot/LATEST",
    )
    for name in left:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("0")
    (home / "day=1").mkdir()
    assert new_table(catalog, _SCHEMA, (1,)).count() == 1
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("db.t", _SCHEMA)


@pytest.mark.parametrize("leads_to", ["empty", "full", "nothing", "table"])
def test_link_is_no_folder_of_table(catalog, tmp_path, leads_to):
    outside = tmp_path / "outside"
    home = Path(catalog.create_table("db.other", _SCHEMA).path).with_name("t")
    if leads_to == "table":
        Path(new_table(catalog, _SCHEMA, (1,), name="db.moved").path).rename(outside)
    elif leads_to != "nothing":
        outside.mkdir()
        if leads_to == "full":
            (outside / "theirs").write_text("x")
    home.symlink_to(outside)
    before = _files(str(outside))
    if leads_to == "table":
        assert catalog.get_table("db.t").count() == 1
        with pytest.raises(InvalidInputError, match="remove the link by hand"):
            catalog.drop_table("db.t", cascade=True)
    else:
        with pytest.raises(InvalidInputError, match="is a link"):
            catalog.create_table("db.t", _SCHEMA)
    assert home.is_symlink()
    assert _files(str(outside)) == before


def test_linked_folder_in_table_is_foreign(catalog, tmp_path):
    table = new_table(catalog, _SCHEMA, (1,))
    (tmp_path / "theirs").mkdir()
    (Path(table.path) / "mine").symlink_to(tmp_path / "theirs")
    (Path(table.path) / "loop").symlink_to(table.path)
    with pytest.raises(InvalidInputError, match="2 foreign files: loop, mine"):
        catalog.drop_table("db.t")
    catalog.drop_table("db.t", cascade=True)
    assert (tmp_path / "theirs").exists()


def test_damaged_table_is_dropped_on_confirmation(catalog):
    table = new_table(catalog, {"id": "BIGINT"}, (1,), options={"data-file.prefix": "own-"})
    Path(table.path, "schema", "schema-0").write_text("{")
    with pytest.raises(InvalidInputError, match="1 foreign file: bucket-0/own-"):
        catalog.drop_table("db.t")
    catalog.drop_table("db.t", cascade=True)
    plain = new_table(catalog, _SCHEMA, (1,))
    Path(plain.path, "schema", "schema-0").write_text("{")
    catalog.drop_table("db.t")
    assert not Path(plain.path).exists()


def test_files_of_earlier_prefix_are_own(catalog):
    table = new_table(catalog, {"id": "BIGINT"}, (1,), options={"data-file.prefix": "first-"})
    write(table.alter([set_option("data-file.prefix", "second-")]), (2,))
    table.truncate()
    table.maintenance().run(MaintenanceTask.EXPIRE_SNAPSHOTS)
    assert foreign_files(table._store) == []
    catalog.drop_table("db.t")


def test_every_interface_names_foreign_files_and_way_out(catalog, tmp_path, invoke):
    settings = ServeSettings(warehouse=str(tmp_path / "w"), insecure=True)
    with serving(settings) as client:
        served = open_catalog(metastore="rest", uri=f"http://127.0.0.1:{client.port}", token="any")  # noqa: S106
        doors = {
            "python": lambda flag: catalog.drop_table("db.t", cascade=flag),
            "sql": lambda flag: catalog.execute(f"DROP TABLE db.t {'CASCADE' * flag}"),
            "http": lambda flag: served.drop_table("db.t", cascade=flag),
        }
        for drop in doors.values():
            table = with_foreign_file(catalog)
            with pytest.raises(InvalidInputError, match=r"landing/theirs\.csv"):
                drop(False)
            drop(True)
            assert not Path(table.path).exists()
    with_foreign_file(catalog)
    assert "landing/theirs.csv" in invoke("drop", "db.t", "--yes", code=2)
    assert "foreign ones in its folder" in invoke("drop", "db.t", "--cascade", input="y\n")
    assert catalog.list_tables("db") == []


def with_foreign_file(catalog):
    table = new_table(catalog, _SCHEMA, (1,))
    Path(table.path, "landing").mkdir()
    Path(table.path, "landing", "theirs.csv").write_text("x")
    return table


def test_cleaning_lists_foreign_files(catalog, invoke):
    notes = Path(new_table(catalog, _SCHEMA, (1,)).path, "bucket-0", "notes.txt")
    notes.write_text("x")
    os.utime(notes, (1, 1))
    assert "1 foreign file left: bucket-0/notes.txt" in invoke("clean", "db.t", "--yes", "--json")
    assert notes.exists()


@pytest.mark.parametrize("statement", ["copy", "create"])
def test_command_refuses_occupied_folder(catalog, invoke, statement):
    source = Path(new_table(catalog, _SCHEMA, (1,), name="db.s").path)
    theirs = source.with_name("t") / "theirs.txt"
    theirs.parent.mkdir()
    theirs.write_text("x")
    arguments = (
        ["copy", "db.s", "db.t"] if statement == "copy" else ["create", "db.t", "--column", "y INT"]
    )
    assert "holds 'theirs.txt'" in invoke(*arguments, code=2)
    assert [path.name for path in theirs.parent.iterdir()] == ["theirs.txt"]


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_rows_on_standard_input_confirm_nothing(catalog, tmp_path, name):
    rows_file = tmp_path / "rows.csv"
    rows_file.write_text("y\n" + "7\n" * 20_000)
    table = new_table(catalog, {"y": "BIGINT"}, (1,), (2,))
    command = [_PROGRAM, "-w", str(Path(table.path).parents[1]), "write", "db.t", name]
    command += ["--format", "csv", "--overwrite"]
    for answer, code, rows in (([], 11, 2), (["--yes"], 0, 20_000)):
        with rows_file.open("rb") as rows_in:
            done = subprocess.run(
                [*command, *answer], stdin=rows_in, capture_output=True, check=False
            )
        assert done.returncode == code, done.stderr
        assert (b"Give --yes" in done.stderr) == (not answer)
        assert table.refresh().count() == rows


def test_statements_on_standard_input_confirm_nothing(catalog):
    for name in ("a", "b"):
        new_table(catalog, _SCHEMA, name=f"db.{name}")
    command = [_PROGRAM, "-w", str(Path(catalog.get_table("db.a").path).parents[1]), "sql"]
    statements = b"DROP TABLE db.a;\ny\n;\nDROP TABLE db.b;\n"
    done = subprocess.run(command, input=statements, capture_output=True, check=False)
    assert done.stderr.count(b"Give --yes") == 2
    assert catalog.list_tables("db") == ["a", "b"]
    subprocess.run([*command, "--yes"], input=statements, capture_output=True, check=False)
    assert catalog.list_tables("db") == []
