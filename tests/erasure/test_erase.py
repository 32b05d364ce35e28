"""Erased rows are in no file of the warehouse, and all other rows of all states are as before."""

import json
import random
import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from paimon_assets import EmbeddedExecutor, Table
from paimon_assets.cli.main import main
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.errors import CommitConflictError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.fileio.atomic import temporary_name
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.erasure import erase, run
from tests.iceberg.kit.reader import newest, rows
from tests.testkit import foreign
from tests.testkit.effort import is_hunt
from tests.testkit.erasing import files_with, stored_rows
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.tables import EXECUTOR, arrow, compact, new_catalog_in, new_table, write

MARK = "zq7marked"
COLUMNS = {"id": "INT NOT NULL", "p": "STRING NOT NULL", "email": "STRING", "n": "BIGINT"}
PLAIN = {"file.compression": "none"}
KEYED = {"bucket": "2"}
LOGS = {"changelog.num-retained.max": "50", "changelog.num-retained.min": "50"}
KINDS = {
    "bag": {},
    "bag in buckets": {"bucket": "2", "bucket-key": "id"},
    "bag with vectors": {"deletion-vectors.enabled": "true"},
    "bag of avro": {"file.format": "avro"},
    "row ids": {"row-tracking.enabled": "true"},
    "indexed": {
        "file-index.bloom-filter.columns": "email", "file-index.in-manifest-threshold": "1 b",
    },
    "indexed inside": {"file-index.bitmap.columns": "email"},
    "iceberg": {"metadata.iceberg.storage": "table-location"},
    "logged": {**LOGS},
    "deduplicate": {**KEYED, "file.format": "orc"},
    "dynamic": {"bucket": "-1"},
    "waiting": {"bucket": "-2"},
    "vectors": {**KEYED, "deletion-vectors.enabled": "true"},
    "partial-update": {**KEYED, "merge-engine": "partial-update"},
    "aggregation": {**KEYED, "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "first-row": {**KEYED, "merge-engine": "first-row", "changelog-producer": "lookup"},
    "input": {**KEYED, **LOGS, "changelog-producer": "input"},
    "lookup": {**KEYED, **LOGS, "changelog-producer": "lookup"},
    "full": {**KEYED, **LOGS, "changelog-producer": "full-compaction"},
    "iceberg keyed": {**KEYED, "metadata.iceberg.storage": "table-location"},
}  # fmt: skip
BAGS = {name for name in KINDS if name.split()[0] in ("bag", "row", "indexed", "iceberg", "logged")}
BAGS.discard("iceberg keyed")
DELETES = BAGS | {"deduplicate", "dynamic", "vectors", "input", "lookup", "full", "iceberg keyed"}


class History:
    """A table with a drawn history, and the keys of the marked rows in its files."""

    def __init__(self, folder, kind, seed, *, parted):
        self.kind, self.random = kind, random.Random(f"{kind} {seed}")  # noqa: S311
        keyed = {} if kind in BAGS else {"primary_keys": ["id", "p"]}
        parts = {"partition_keys": ["p"]} if parted else {}
        options = {**PLAIN, **KINDS[kind]}
        self.table = new_table(folder, COLUMNS, **keyed, **parts, options=options)
        self.names = 0
        for _ in range(self.random.randint(4, 9)):
            self.step()
        self.write(marked=True)
        clean_orphan_files(self.table._store, older_than_ms=0, dry_run=False)
        stored = stored_rows(self.table.path)
        self.marked = {(r["id"], r["p"]) for r in stored if (r.get("email") or "").startswith(MARK)}

    def rows(self, *, marked):
        rows = []
        for number in self.random.sample(range(12), self.random.randint(1, 6)):
            is_marked = marked and self.random.random() < 0.4
            where = self.random.choice("ab")
            email = f"{MARK}-{number}" if is_marked else self.random.choice([None, "ann", "bob"])
            rows.append({"id": number, "p": where, "email": email, "n": self.random.randint(0, 9)})
        return rows

    def write(self, *, marked):
        rows = self.rows(marked=marked)
        names = self.table.schema.field_names
        renamed = [{names[list(COLUMNS).index(k)]: v for k, v in row.items()} for row in rows]
        write(self.table, *renamed)

    def step(self):
        steps = ["write"] * 4 + ["delete", "compact", "full", "tag", "branch", "expire"]
        match self.random.choice([*steps, "analyze", "add", "on a branch"]):
            case "write":
                self.write(marked=self.random.random() < 0.6)
            case "delete" if self.kind in DELETES:
                compact(self.table)
                self.table.delete(f"id = {self.random.randint(0, 11)}")
            case "compact":
                compact(self.table, "minor")
            case "full":
                compact(self.table)
            case "tag" if self.table.latest_snapshot():
                self.names += 1
                self.table.tags.create(f"t{self.names}")
            case "branch" if self.table.tags.list() and self.names < 4:
                self.names += 1
                tag = self.table.tags.list()[-1].name
                self.table.branches.create(f"b{self.names}", tag=tag)
            case "on a branch" if self.table.branches.list():
                main, name = self.table, self.random.choice(list(self.table.branches.list()))
                self.table = main.at_branch(name)
                self.write(marked=True)
                compact(self.table)
                self.table = main
            case "expire" if self.table.latest_snapshot():
                keep = Retention(min_count=1, max_count=2, time_ms=0, limit=50)
                expire_snapshots(self.table._store, retention=keep)
            case "analyze":
                self.table.analyze()
            case "add" if len(self.table.schema.fields) == len(COLUMNS):
                self.table.alter([{"action": "addColumn", "fieldNames": ["x"], "dataType": "INT"}])
                self.table.refresh()


def as_tuple(row):
    return tuple(row.get(name) for name in COLUMNS)


def states(table):
    """Return branch and state → its rows, as a reader sees them."""
    found = {}
    for branch in (None, *table.branches.list()):
        here = table if branch is None else table.at_branch(branch)
        versions = {f"snapshot {s.id}": {"scan.snapshot-id": str(s.id)} for s in here.snapshots()}
        versions |= {f"tag {t.name}": {"scan.tag-name": t.name} for t in here.tags.list()}
        for name, options in versions.items():
            shown = here.copy(options).to_arrow().to_pylist()
            found[branch, name] = sorted((as_tuple(row) for row in shown), key=repr)
    return found


def without(rows, history):
    if history.kind in BAGS:
        return [row for row in rows if not (row[2] or "").startswith(MARK)]
    return [row for row in rows if (row[0], row[1]) not in history.marked]


def seen_by_iceberg(table):
    """Return snapshot → its rows for readers of Iceberg; empty without metadata of theirs."""
    if "metadata.iceberg.storage" not in table.schema.options:
        return {}
    document = newest(f"{table.path}/metadata")
    ids = [each["snapshot-id"] for each in document["snapshots"]]
    return {number: rows(document, number) for number in ids}


def first_change(table):
    """Return the snapshot before the oldest one whose changes are kept."""
    logs = table._store.changelogs.list_ids()
    return min([*logs, table.snapshots()[0].id]) - bool(logs)


def changes(table, first, last):
    """Return the rows of the changelog after one snapshot up to another, None if it is gone."""
    log = table.copy({"incremental-between": f"{first},{last}"}).system_table("audit_log")
    try:
        rows = log.to_arrow().to_pylist()
    except (NotFoundError, UnsupportedFeatureError):
        return None
    return sorted(((*as_tuple(row), row["rowkind"]) for row in rows), key=repr)


def check_sound(table):
    """Check that the table is sound: nothing is needless or missing, counts are right."""
    assert clean_orphan_files(table._store, older_than_ms=0).files == ()
    for snapshot in table.snapshots():
        live = table.state.live_files(snapshot)
        assert snapshot.total_record_count == sum(entry.file.row_count for entry in live)


@pytest.mark.hunt
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["keep", "expire"])
def test_erased_rows_leave_no_bytes(tmp_path, kind, mode):
    logs = 0
    for seed in range(40 if is_hunt() else 3):
        folder = tmp_path / str(seed)
        history = History(folder, kind, seed, parted=seed % 2 == 1)
        table = history.table
        before = states(table)
        dry = erase(table, f"email LIKE '{MARK}%'", history=mode, dry_run=True)
        assert states(table) == before
        shown = seen_by_iceberg(table)
        first, last = first_change(table), table.latest_snapshot().id
        log = changes(table, first, last)
        report = erase(table, f"email LIKE '{MARK}%'", history=mode, orphans_older_than_ms=0)
        assert (report.rows, report.files, report.places) == (dry.rows, dry.files, dry.places)
        assert report.is_complete
        assert bool(report.rows) == bool(history.marked)
        assert files_with(folder, MARK) == []
        table.refresh()
        after = states(table)
        for name, found in after.items():
            if name in before:
                assert found == without(before[name], history), name
        for number, found in seen_by_iceberg(table).items():
            expected = shown.get(number, shown[max(shown)])
            assert found == without(expected, history), number
        if mode == "keep":
            assert before.keys() <= after.keys()
            if log is not None:
                logs += 1
                assert changes(table, first, last) == without(log, history)
        check_sound(table)
        again = erase(table, f"email LIKE '{MARK}%'", history=mode, orphans_older_than_ms=0)
        assert (again.rows, again.deleted) == (0, 0)
        after = states(table)
        history.write(marked=False)
        compact(table)
        assert after.items() <= states(table).items()
        shutil.rmtree(folder)
    assert logs or mode == "expire"


@pytest.fixture
def people(tmp_path):
    columns = {"id": "INT", "email": "STRING"}
    return new_table(tmp_path / "w", columns, (1, MARK), (2, "bob"), options=PLAIN)


def test_segment_files_are_listed_and_kept(people, tmp_path):
    for folder, file_format in (("land", "parquet"), ("texts", "csv")):
        (tmp_path / folder).mkdir()
        data = arrow(people.schema, (3, MARK), (4, "eve"))
        foreign.write(tmp_path / folder / f"1.{file_format}", data)
        foreign.add_segment(people, tmp_path / folder, file_format, options={"header": "true"})
        write(people, (5, "own"))
    listed = people.segments().shown(history=True)
    before = files_with(tmp_path, MARK)
    report = erase(people, f"email = '{MARK}'", orphans_older_than_ms=0)
    assert not report.is_complete
    assert [text.partition(":")[0] for text in report.outside] == [
        "file of a segment", "text segment 3, which was not searched",
    ]  # fmt: skip
    foreign_files = ["land/1.parquet", "texts/1.csv"]
    assert [name for name in before if name in foreign_files] == foreign_files
    assert files_with(tmp_path, MARK) == foreign_files
    people.refresh()
    assert people.segments().shown(history=True) == listed
    assert sorted(row["id"] for row in people.to_arrow().to_pylist()) == [2, 3, 3, 4, 4, 5, 5]


def test_command_has_exit_code_for_remaining_files(people, tmp_path):
    command = ["erase", people.path, "--where", f"email = '{MARK}'", "--yes"]
    report = tmp_path / "report.json"
    (Path(people.path) / "bucket-0" / "notes.txt").write_text(MARK)
    result = CliRunner().invoke(main, [*command, "--older-than", "0 s", "--report", str(report)])
    assert result.exit_code == 12, result.output
    document = json.loads(report.read_text())
    assert (document["rows"], document["is_complete"]) == (1, False)
    assert document["outside"] == ["foreign file in the table's folder: bucket-0/notes.txt"]
    (Path(people.path) / "bucket-0" / "notes.txt").unlink()
    assert CliRunner().invoke(main, [*command, "--older-than", "0 s"]).exit_code == 0


def test_recent_unnamed_file_is_kept_and_reported(people):
    people.new_write_builder().prepare()
    stray = Path(people.path) / "bucket-0" / f"data-{uuid4()}-0.parquet"
    stray.write_bytes(MARK.encode())
    report = erase(people, f"email = '{MARK}'")
    assert report.outside == (f"file that no state names: {stray}",)
    assert erase(people, f"email = '{MARK}'", orphans_older_than_ms=0).is_complete
    assert not stray.exists()


def test_states_without_such_rows_do_not_expire(tmp_path):
    table = new_table(tmp_path, {"id": "INT", "email": "STRING"}, (1, "bob"))
    write(table, (2, MARK), (3, "eve"))
    assert erase(table, f"email = '{MARK}'", history="expire").expired == ()
    assert [len(rows) for rows in states_of(table).values()] == [1, 2, 2]
    write(table, (4, "ann"), (5, MARK))
    write(table, (6, "zoe"))
    report = erase(table, f"email = '{MARK}'", history="expire")
    assert report.expired == tuple(f"snapshot {number} of main" for number in range(1, 5))
    assert [len(rows) for rows in states_of(table).values()] == [4, 4]


def test_call_shows_states_that_held_rows(tmp_path):
    catalog = new_catalog_in(tmp_path)
    table = new_table(catalog, {"id": "INT", "email": "STRING"}, (1, MARK), (2, "bob"))
    table.tags.create("t")
    call = f"CALL sys.erase(table => 'db.t', where => \"email = '{MARK}'\", history => 'expire')"
    assert catalog.execute(call).to_pylist() == [
        {"branch": "main", "kind": kind, "name": name, "files": 1, "rows": 1}
        for kind, name in (("snapshot", "1"), ("tag", "t"))
    ]
    assert catalog.get_table("db.t").count() == 1


def test_files_that_are_joined_by_position_are_refused(tmp_path):
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = new_table(tmp_path, {"id": "INT", "email": "STRING"}, (1, MARK), options=options)
    with refused(UnsupportedFeatureError, kind="erase-data-evolution"):
        erase(table, f"email = '{MARK}'")
    assert table.count() == 1


@pytest.mark.way_out("erase-missing-file")
def test_state_with_missing_file_is_named(people):
    write(people, (7, MARK))
    (path,) = (p for p in Path(people.path).rglob("*.parquet") if b"bob" in p.read_bytes())
    data = path.read_bytes()
    path.unlink()
    with refused(NotFoundError, path.name, kind="erase-missing-file"):
        erase(people, f"email = '{MARK}'")
    path.write_bytes(data)
    erase(people, f"email = '{MARK}'")


@pytest.mark.way_out("erase-overtaken")
def test_erase_between_faster_commits_is_done_without_them(people):
    def overtake(_, method, path):
        if method == "write_bytes" and "/erase-" in path:
            write(people, (8, MARK))

    busy = Table(replace(people._store, file_io=FaultyFileIO(LocalFileIO(), before=overtake)))
    with refused(CommitConflictError, "Stop the writers, and erase again", kind="erase-overtaken"):
        erase(busy, f"email = '{MARK}'")
    erase(people, f"email = '{MARK}'")
    assert files_with(Path(people.path), MARK) == []


def test_erase_keeps_later_deleted_rows_deleted(tmp_path):
    vectors = {"deletion-vectors.enabled": "true"}
    table = new_table(tmp_path, COLUMNS, options={**PLAIN, **vectors})
    write(table, *((n, "a", MARK if n in (0, 3) else "bob", n) for n in range(6)))
    table.delete("id = 4")
    table.tags.create("one")
    table.delete("id IN (0, 1)")
    before = states(table)
    erase(table, f"email = '{MARK}'", orphans_older_than_ms=0)
    after = states(table)
    ids = {name: [row[0] for row in rows] for name, rows in after.items()}
    assert ids[None, "snapshot 1"] == [1, 2, 4, 5]
    assert ids[None, "tag one"] == [1, 2, 5]
    assert ids[None, "snapshot 3"] == [2, 5]
    assert before.keys() <= after.keys()
    assert files_with(tmp_path, MARK) == []


@pytest.mark.parametrize("keys", [{"primary_keys": ["email"]}, {"partition_keys": ["email"]}])
def test_erased_key_and_partition_leave_files_and_paths(tmp_path, keys):
    columns = {"email": "STRING NOT NULL", "n": "INT"}
    bucket = {"bucket": "1"} if "primary_keys" in keys else {}
    table = new_table(tmp_path, columns, options={**PLAIN, **bucket}, **keys)
    for number in range(5):
        write(table, (MARK, number), (f"a{number}", number), ("zz", number))
        compact(table)
    expire_snapshots(
        table._store, retention=Retention(min_count=1, max_count=2, time_ms=0, limit=9)
    )
    before = states_of(table)
    report = erase(table, f"email = '{MARK}'", orphans_older_than_ms=0)
    assert report.rows
    assert files_with(tmp_path, MARK) == []
    assert [path for path in tmp_path.rglob("*") if MARK in path.name] == []
    after = states_of(table)
    for number, found in before.items():
        assert after[number] == [row for row in found if row["email"] != MARK]


def states_of(table):
    def at(number):
        rows = table.copy({"scan.snapshot-id": str(number)}).to_arrow().to_pylist()
        return sorted(rows, key=repr)

    return {snapshot.id: at(snapshot.id) for snapshot in table.snapshots()}


def test_rows_keep_their_ids(tmp_path):
    options = {"row-tracking.enabled": "true"}
    table = new_table(tmp_path, {"id": "INT", "email": "STRING"}, options=options)
    write(table, (0, MARK), (1, "a"), (2, MARK), (3, "b"))
    write(table, (4, MARK), (5, "c"))
    read = ["id", "_ROW_ID", "_SEQUENCE_NUMBER"]
    before = table.to_arrow(read).to_pylist()
    erase(table, f"email = '{MARK}'")
    left = [row for row in before if row["id"] in (1, 3, 5)]
    assert table.to_arrow(read).to_pylist() == left
    for row in left:
        assert table.to_arrow(read, f"_ROW_ID = {row['_ROW_ID']}").to_pylist() == [row]


class _Between(EmbeddedExecutor):
    """Erases after the tasks of another operation ran, and before it commits."""

    def __init__(self, table):
        super().__init__(1)
        self._table = table

    def map_tasks(self, batch):
        answers = list(super().map_tasks(batch))
        if self._table is not None:
            table, self._table = self._table, None
            erase(table, f"email = '{MARK}'")
        return iter(answers)


@pytest.mark.parametrize("kind", ["bag", "bag with vectors", "deduplicate", "vectors"])
def test_earlier_planned_operation_restores_no_row(tmp_path, kind):
    keyed = {} if kind in BAGS else {"primary_keys": ["id"]}
    table = new_table(tmp_path, COLUMNS, options={**PLAIN, **KINDS[kind]}, **keyed)
    for number in range(6):
        write(table, (number, "a", "bob", 1), (number + 10, "a", MARK, 1))
    compact(table, executor=_Between(table))
    builder = table.new_write_builder()
    written = EXECUTOR.map_rows(builder.prepare(), arrow(table.schema, (50, "a", "ann", 0)))
    erase(table, "id = 1")
    builder.commit(written.messages)
    compact(table)
    table.new_row_change_builder().delete("id IN (2, 12)", _Between(table))
    compact(table)
    assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == [0, 3, 4, 5, 50]
    erase(table, f"email = '{MARK}'", orphans_older_than_ms=0)
    assert files_with(tmp_path, MARK) == []
    check_sound(table)


CHANGES = {
    "rollback": lambda table: table.rollback_to(1),
    "forward": lambda table: table.branches.fast_forward("side"),
    "delete": lambda table: table.tags.delete("old"),
    "rename": lambda table: table.tags.rename("old", "new"),
    "replace": lambda table: table.tags.replace("old", 1),
}


@pytest.mark.way_out("erase-runs")
@pytest.mark.parametrize("change", CHANGES)
def test_deletion_of_states_beside_erasure_is_refused(people, change):
    write(people, (3, "eve"))
    people.tags.create("old", 2)
    people.branches.create("side", snapshot_id=2)
    todo = ["change"]

    def rival(_, method, path):
        if method == "replace" and "/snapshot-" in path and todo:
            todo.pop()
            with refused(CommitConflictError, "Try again later", kind="erase-runs"):
                CHANGES[change](people)

    table = Table(replace(people._store, file_io=FaultyFileIO(LocalFileIO(), before=rival)))
    erase(table, f"email = '{MARK}'")
    assert not todo
    assert sorted(row["id"] for row in people.refresh().to_arrow().to_pylist()) == [2, 3]
    CHANGES[change](people)
    assert files_with(Path(people.path), MARK) == []


@pytest.mark.way_out("erase-overtaken")
@pytest.mark.parametrize("name", ["undo", "rollback-1"])
def test_mark_of_killed_rollback_is_cleaned_before_erasure(people, name, monkeypatch):
    monkeypatch.setattr(run, "_PAUSE_MS", 1)
    mark = Path(people.path, "tag", temporary_name(name))
    mark.parent.mkdir(exist_ok=True)
    mark.touch()
    with refused(CommitConflictError, "clean orphans of all ages", kind="erase-overtaken"):
        erase(people, f"email = '{MARK}'")
    clean_orphan_files(people._store, older_than_ms=0, dry_run=False)
    assert not mark.exists()
    erase(people, f"email = '{MARK}'")
    assert files_with(Path(people.path), MARK) == []


@pytest.mark.parametrize(
    "options",
    [
        {"data-file.path-directory": "data", "index-file-in-data-file-dir": "true"},
        {"data-file.external-paths": "file://{}/elsewhere"},
        {"deletion-vectors.bitmap64": "true"},
        {"bucket": "2", "changelog-producer": "input", "changelog-file.format": "avro"},
        {"bucket": "2", "file.format.per.level": "0:avro,5:orc", "sequence.field": "n"},
        {"metadata.stats-mode": "truncate(16)"},
    ],
    ids=lambda options: next(reversed(options)),
)
def test_rewritten_files_keep_file_options(tmp_path, options):
    keyed = {"primary_keys": ["id"]} if "bucket" in options else {}
    options = {key: text.format(tmp_path) for key, text in options.items()}
    if not keyed:
        options["deletion-vectors.enabled"] = "true"
    table = new_table(tmp_path / "w", COLUMNS, options={**PLAIN, **options}, **keyed)
    write(table, (1, "a", MARK, 1), (2, "a", "bob", 1), (3, "a", "eve", 1))
    table.tags.create("one")
    write(table, (4, "a", MARK, 1), (5, "a", "ann", 1))
    compact(table)
    table.delete("id = 3")
    before = {each.suffix for each in tmp_path.rglob("bucket-*/*")}
    erase(table, f"email = '{MARK}'", orphans_older_than_ms=0)
    after = states(table)
    newest = table.latest_snapshot().id
    assert [row[0] for row in after[None, f"snapshot {newest}"]] == [2, 5]
    assert [row[0] for row in after[None, "tag one"]] == [2, 3]
    assert {each.suffix for each in tmp_path.rglob("bucket-*/*")} == before
    assert files_with(tmp_path, MARK) == []
