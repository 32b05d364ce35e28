"""Ledgers: comparison with folders, cost of a run, and their bytes."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets import FormatError, InvalidInputError, Table, TableCatalog
from paimon_assets.assets.files import ledger as ledgers
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.control.segments import FolderFile
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.tables import new_table

files = st.builds(
    FolderFile,
    name=st.text(min_size=1, max_size=3),
    size=st.integers(0, 2**62),
    modified_ms=st.integers(0, 2**62),
)
folders = st.lists(files, max_size=8, unique_by=lambda file: file.name)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return new_table(tmp_path_factory.mktemp("warehouse"), {"id": "BIGINT"}, name="d.t")


def store_and_load(table: Table, ledger: ledgers.Ledger, **options: int) -> ledgers.Ledger:
    """Write a ledger, and return it as read."""
    name = ledgers.write_ledger(table, ledger, **options)
    path = f"{table.path}/ingestion/{name}"
    return ledgers.ledger_from_json(table.state.file_io.read_bytes(path), path)


def file(name: object) -> FolderFile:
    return FolderFile(name=f"{name}", size=1, modified_ms=1)


@given(st.integers(0, 9))
def test_ledger_is_restored_from_its_bytes(generation: int) -> None:
    ledger = ledgers.Ledger(
        source="log/events",
        generation=generation,
        parts=(ledgers.Part(file="ledger-1.parquet", count=2, first="a", last="ä"),),
        forgotten=3,
        forgotten_to="0",
    )
    assert ledgers.ledger_from_json(ledgers.ledger_to_json(ledger), "x") == ledger


@settings(deadline=None, max_examples=40)
@given(st.lists(folders, max_size=6))
def test_ingested_file_is_never_new_again(table: Table, landed: list[list[FolderFile]]) -> None:
    ledger, held = ledgers.Ledger(source="s"), dict[str, FolderFile]()
    for folder in landed:
        pending = ledgers.compare(folder, ledger, table)
        assert set(pending.new) == {item for item in folder if item.name not in held}
        assert list(pending.new) == sorted(pending.new)
        assert set(pending.changed) == {
            item for item in folder if item.name in held and held[item.name] != item
        }
        ledger = store_and_load(table, ledger.with_files(pending.new))
        held |= {item.name: item for item in pending.new}
        assert ledger.file_count == len(held)
        after = ledgers.compare(held.values(), ledger, table)
        assert (after.new, after.changed) == ((), ())


class Counting(LocalFileIO):
    """Real storage that counts bytes read and written."""

    def __init__(self) -> None:
        self.read = self.written = self.snapshots = 0

    def read_bytes(self, path: str) -> bytes:
        data = super().read_bytes(path)
        self.read += len(data)
        self.snapshots += "/snapshot-" in path
        return data

    def write_bytes(self, path: str, data: bytes) -> None:
        super().write_bytes(path, data)
        self.written += len(data)


def test_ingestion_and_tick_cost_only_new_files(tmp_path: Path) -> None:
    file_io = Counting()
    catalog = TableCatalog(FilesystemCatalog(str(tmp_path), file_io))
    catalog.create_database("d")
    table = new_table(catalog, {"id": "BIGINT"}, name="d.t")
    known = [file(f"{number:09}-{number * 7919 % 10007}") for number in range(20_000)]
    ledger = store_and_load(table, ledgers.Ledger(source="s").with_files(known))
    whole = file_io.written
    file_io.read = file_io.written = 0
    for number in range(64):
        landed = [file(f"{20_000 + number:09}")]
        assert list(ledgers.compare(landed, ledger, table).new) == landed
        ledger = store_and_load(table, ledger.with_files(landed))
    assert len(ledger.parts) < 10
    assert (file_io.read + file_io.written) / 64 < 4_000 < whole / 10
    file_io.read = 0
    assert ledgers.compare([*known, file("x")], ledger, table).new == (file("x"),)
    assert file_io.read < whole * 1.2


def test_tick_opens_only_foreign_snapshots_since_last(tmp_path: Path) -> None:
    file_io = Counting()
    catalog = TableCatalog(FilesystemCatalog(str(tmp_path), file_io))
    catalog.create_database("d")
    table = new_table(catalog, {"id": "BIGINT"}, name="d.t")
    writer = table.new_write_builder().with_empty_commits()
    writer.with_properties({ledgers.property_of("s"): "ledger-1.json"}).commit(())
    opened = []
    for _ in range(3):
        for _ in range(10):  # commits of other engines have no properties
            path = Path(table.path) / "snapshot" / f"snapshot-{writer.commit(()).id}"
            members = json.loads(path.read_bytes())
            del members["properties"]
            path.write_text(json.dumps(members))
        file_io.snapshots = 0
        found = ledgers.ledger_snapshot(table, "s")
        assert found is not None
        assert found.id == 1
        opened.append(file_io.snapshots)
    assert max(opened) <= 12


def test_names_ordered_in_time_are_remembered_in_part(table: Table) -> None:
    ledger = ledgers.Ledger(source="s")
    for number in range(100):
        ledger = store_and_load(table, ledger.with_files([file(f"{number:03}")]), remembered=8)
        assert sum(part.count for part in ledger.parts) <= 12
    assert ledger.file_count == 100
    assert ledgers.compare([file(f"{number:03}") for number in range(100)], ledger, table).new == ()
    assert ledgers.compare([file("100")], ledger, table).new == (file("100"),)
    changed = [FolderFile(name=f"{number:03}", size=2, modified_ms=1) for number in (5, 95)]
    assert [item.name for item in ledgers.compare(changed, ledger, table).changed] == ["095"]


def test_ledger_with_inline_files_continues_in_parts(table: Table) -> None:
    members = {"version": 1, "source": "s", "generation": 4, "files": [["a", 1, 1], ["b", 1, 1]]}
    old = ledgers.ledger_from_json(json.dumps(members).encode(), "x")
    assert (old.generation, old.file_count) == (4, 2)
    now = store_and_load(table, old.with_files([file("c")]))
    assert (now.generation, now.file_count, len(now.parts)) == (5, 3, 1)
    assert ledgers.compare([file(name) for name in "abcd"], now, table).new == (file("d"),)


def test_unused_parts_are_orphans(tmp_path: Path) -> None:
    table = new_table(tmp_path, {"id": "BIGINT"}, name="d.t")
    ledger, names = ledgers.Ledger(source="s"), []
    for name in "abc":
        names.append(ledgers.write_ledger(table, ledger.with_files([file(name)])))
        path = f"{table.path}/ingestion/{names[-1]}"
        ledger = ledgers.ledger_from_json(table.state.file_io.read_bytes(path), path)
    properties = {"paimon-assets.ingestion.s": names[-1]}
    table.new_write_builder().with_empty_commits().with_properties(properties).commit(())
    directory = Path(table.path) / "ingestion"
    clean_orphan_files(table.new_read_builder().store, older_than_ms=0, dry_run=False)
    left = {path.name for path in directory.iterdir() if path.name.startswith("ledger-")}
    assert left == {names[-1], *(part.file for part in ledger.parts)}
    assert ledgers.compare([file("c")], ledger, table).new == ()


def test_changes_are_refused_by_name() -> None:
    held = FolderFile(name="a", size=1, modified_ms=1)
    now = FolderFile(name="a", size=2, modified_ms=1)
    pending = ledgers.compare([now], ledgers.Ledger(source="s").with_files([held]))
    with pytest.raises(InvalidInputError, match="a in '/landing' changed") as caught:
        pending.refuse_changes("/landing")
    assert caught.value.kind == "source-changed"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": 3, "source": "s", "generation": 0, "parts": []}',
        b'{"version": 2, "source": "s", "generation": 0, "parts": [["../x", 1, "a", "b"]]}',
        b'{"version": 1, "source": "s", "generation": "x", "files": []}',
        b'{"version": 1, "source": "s", "generation": 0, "files": [["a", "b"]]}',
    ],
)
def test_invalid_ledger_is_refused_with_its_path(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"'/t/ledger-1\.json' is no ingestion ledger"):
        ledgers.ledger_from_json(data, "/t/ledger-1.json")
