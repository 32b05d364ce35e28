"""Erased rows are in no file of the warehouse, and all other rows of all states are as before."""

import random
import shutil

import pytest

from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.errors import NotFoundError, UnsupportedFeatureError
from tests.testkit.effort import is_hunt
from tests.testkit.erasing import files_with, stored_rows
from tests.testkit.tables import compact, new_table, write

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
            rows = here.copy(options).to_arrow().to_pylist()
            found[branch, name] = sorted((as_tuple(row) for row in rows), key=repr)
    return found


def without(rows, history):
    if history.kind in BAGS:
        return [row for row in rows if not (row[2] or "").startswith(MARK)]
    return [row for row in rows if (row[0], row[1]) not in history.marked]


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["keep", "expire"])
def test_no_byte_of_an_erased_row_is_left(tmp_path, kind, mode):
    logs = 0
    for seed in range(40 if is_hunt() else 3):
        folder = tmp_path / str(seed)
        history = History(folder, kind, seed, parted=seed % 2 == 1)
        table = history.table
        before = states(table)
        dry = table.erase(f"email LIKE '{MARK}%'", history=mode, dry_run=True)
        assert states(table) == before
        first, last = first_change(table), table.latest_snapshot().id
        log = changes(table, first, last)
        report = table.erase(f"email LIKE '{MARK}%'", history=mode, orphans_older_than_ms=0)
        assert (report.rows, report.files, report.places) == (dry.rows, dry.files, dry.places)
        assert report.is_complete
        assert bool(report.rows) == bool(history.marked)
        assert files_with(folder, MARK) == []
        table.refresh()
        after = states(table)
        for name, rows in after.items():
            if name in before:
                assert rows == without(before[name], history), name
        if mode == "keep":
            assert before.keys() <= after.keys()
            if log is not None:
                logs += 1
                assert changes(table, first, last) == without(log, history)
        check_sound(table)
        again = table.erase(f"email LIKE '{MARK}%'", history=mode, orphans_older_than_ms=0)
        assert (again.rows, again.deleted) == (0, 0)
        after = states(table)
        history.write(marked=False)
        compact(table)
        assert after.items() <= states(table).items()
        shutil.rmtree(folder)
    assert logs or mode == "expire"
