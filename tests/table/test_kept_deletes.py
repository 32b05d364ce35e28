"""Records that delete, kept by full compactions for `sequence.delete-retention`."""

import itertools
import time
from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets import EmbeddedExecutor, InvalidInputError, Schema, open_catalog
from paimon_assets.engine.spec.evolution.schema_change import remove_option, set_option
from tests.iceberg.kit import reader as iceberg_reader
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.tables import write

COLUMNS = {"k": "INT", "op": "STRING", "t": "INT", "v": "INT"}
LOG = {"bucket": "1", "rowkind.field": "op", "sequence.field": "t"}
EXECUTOR = EmbeddedExecutor(threads=1)
DAY_MS = 24 * 3_600_000


@dataclass
class MovedClock:
    """The time of this machine, some days ahead."""

    days: float = 0

    def now_millis(self) -> int:
        return int(time.time() * 1000 + self.days * DAY_MS)


def new_table(catalog, options, name="db.t"):
    return catalog.create_table(name, Schema.of(COLUMNS, primary_keys=["k"], options=options))


def compact(table, days=0.0, strategy="full"):
    builder = table.new_compaction_builder().with_strategy(strategy)
    return replace(builder, clock=MovedClock(days)).run(EXECUTOR)


def read(table, where=None):
    rows = table.new_read_builder().with_filter(where).to_arrow(EXECUTOR)
    return {row["k"]: (row["t"], row["v"]) for row in rows.to_pylist()}


def deletes(table):
    return sum(entry.file.delete_row_count for entry in table.state.live_files())


def test_older_record_after_full_compaction_is_no_row(catalog):
    table = new_table(catalog, LOG)
    write(table, (1, "+I", 1, 10), (2, "+I", 1, 20))
    write(table, (1, "-D", 9, 10))
    assert compact(table).deletes_kept == 1
    write(table, (1, "+U", 5, 15))
    assert read(table) == {2: (1, 20)}
    assert (read(table, "v = 15"), read(table, "k = 1"), table.count()) == ({}, {}, 1)
    assert compact(table).deletes_kept == 1
    assert read(table) == {2: (1, 20)}
    write(table, (1, "+I", 10, 99))
    assert read(table) == {1: (10, 99), 2: (1, 20)}
    assert compact(table).deletes_kept == 0


def test_system_tables_and_statistics_count_no_kept_delete_as_row(catalog):
    table = new_table(catalog, LOG)
    write(table, *((key, "+I", 1, key) for key in range(5)))
    write(table, (0, "-D", 9, 0), (7, "-D", 9, 0))
    compact(table)
    assert table.analyze(executor=EXECUTOR).statistics.merged_record_count == 4
    compacted = catalog.get_system_table("db.t$ro").to_arrow().column("k").to_pylist()
    assert compacted == [1, 2, 3, 4]
    [file] = catalog.get_system_table("db.t$files").to_arrow().to_pylist()
    assert (file["record_count"], file["deleteRowCount"]) == (6, 2)
    changes = table.new_read_builder().between(1, 3, "diff").with_row_kinds().to_arrow(EXECUTOR)
    assert changes.select(["rowkind", "k"]).to_pylist() == [{"rowkind": "-D", "k": 0}]


def test_each_delete_is_kept_for_its_own_time(catalog):
    table = new_table(catalog, LOG)
    write(table, *((key, "+I", 1, key) for key in range(4)))
    write(table, (0, "-D", 2, 0))
    assert compact(table).deletes_kept == 1
    write(table, (1, "-D", 2, 0))
    assert compact(table, days=5).deletes_kept == 2
    write(table, (2, "-D", 2, 0))
    assert compact(table, days=7.1).deletes_kept == 2  # that of key 0 went
    assert compact(table, days=12.1).deletes_kept == 1
    assert compact(table, days=20).deletes_kept == 0
    assert compact(table, days=20).snapshot is None
    assert read(table) == {3: (1, 3)}


def test_retention_of_zero_drops_kept_deletes(catalog):
    table = new_table(catalog, LOG)
    write(table, (1, "+I", 1, 10), (2, "-D", 9, 0))
    assert (compact(table).deletes_kept, compact(table).snapshot) == (1, None)
    table.alter([set_option("sequence.delete-retention", "0 s")])
    assert compact(catalog.get_table("db.t")).deletes_kept == 0
    assert deletes(table) == 0


PADDED = {"bucket": "1", "sequence.field": "t", "sequence.auto-padding": "row-kind-flag"}
OBSTACLES = {
    "merge-engine": ["partial-update", "aggregation"],
    "changelog-producer": ["full-compaction"],
    "deletion-vectors.enabled": ["true"],
    "metadata.iceberg.storage": ["table-location"],
}


@pytest.mark.parametrize(
    ("option", "value"), [(key, value) for key, values in OBSTACLES.items() for value in values]
)
def test_deletes_are_not_kept_for_engines_that_read_them(catalog, option, value):
    options = {**LOG, option: value}
    if value == "partial-update":
        options["partial-update.remove-record-on-delete"] = "true"
    elif value == "aggregation":
        options["aggregation.remove-record-on-delete"] = "true"
    with refused(InvalidInputError, f"does not go with '{option}'", kind="delete-retention"):
        new_table(catalog, {**options, "sequence.delete-retention": "7 d"})
    table = new_table(catalog, {**options, "sequence.delete-retention": "0 s"})
    table.alter([remove_option("sequence.delete-retention")])
    with refused(InvalidInputError, f"'{option}'", kind="delete-retention"):
        table.alter([set_option("sequence.delete-retention", "1 h")])
    write(table, (1, "+I", 1, 10), (2, "-D", 9, 0))
    compact(table)
    assert deletes(table) == 0


def test_late_iceberg_metadata_shows_no_kept_delete(catalog):
    table = new_table(catalog, LOG)
    write(table, (1, "+I", 1, 10), (2, "+I", 1, 20))
    write(table, (1, "-D", 9, 10))
    assert compact(table).deletes_kept == 1
    table.alter([set_option("metadata.iceberg.storage", "table-location")])
    table = catalog.get_table("db.t")
    write(table, (3, "+I", 1, 30))
    document = iceberg_reader.newest(f"{table.path}/metadata")
    assert iceberg_reader.rows(document) == []  # the file with the delete is left out
    assert compact(table).deletes_kept == 0
    shown = iceberg_reader.rows(iceberg_reader.newest(f"{table.path}/metadata"))
    assert shown == iceberg_reader.ours(table.to_arrow())
    assert len(shown) == 2


@pytest.mark.parametrize("options", [{"bucket": "1"}, {"bucket": "1", "rowkind.field": "op"}])
def test_deletes_are_kept_only_with_column_that_orders_records(catalog, options):
    with refused(InvalidInputError, "needs 'sequence.field'", kind="delete-retention"):
        new_table(catalog, {**options, "sequence.delete-retention": "7 d"})


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (LOG, 1),
        ({**LOG, "changelog-producer": "input"}, 1),
        ({**LOG, "sequence.delete-retention": "0 s"}, 0),
        ({**PADDED, "rowkind.field": "op"}, 1),
    ],
)
def test_deletes_are_kept_by_default_in_tables_of_change_logs(catalog, options, kept):
    table = new_table(catalog, options)
    write(table, (1, "+I", 1, 10), (2, "-D", 9, 0))
    assert compact(table).deletes_kept == kept
    assert table.state.shape().deleted_rows == 0


SHAPES = st.fixed_dictionaries(
    {
        "bucket": st.sampled_from(["1", "2", "-1", "-2"]),
        "file.format": st.sampled_from(["parquet", "orc", "avro"]),
        "changelog-producer": st.sampled_from(["none", "input", "lookup"]),
        "force-lookup": st.sampled_from(["true", "false"]),
        "num-sorted-run.compaction-trigger": st.sampled_from(["2", "3"]),
        "target-file-size": st.sampled_from(["1 b", "1 mb"]),
        "compaction.force-rewrite-all-files": st.sampled_from(["true", "false"]),
        "metadata.stats-dense-store": st.sampled_from(["true", "false"]),
    }
)
ORDERS = {
    "plain": {},
    "descending": {"sequence.field.sort-order": "descending"},
    "flag": {"sequence.auto-padding": "row-kind-flag"},
    "counter": {"sequence.auto-padding": "second-to-micro"},
    "number": {
        "sequence.auto-padding": "row-kind-flag",
        "sequence.padding.layout": "sequence-number",
        "sequence.padding-field": "t",
    },
}
RECORD = st.tuples(
    st.integers(0, 5), st.sampled_from(["+I", "+U", "-D", "-D"]), st.integers(0, 9),
    st.integers(0, 3),
)  # fmt: skip
STEPS = st.lists(
    st.lists(RECORD, min_size=1, max_size=5) | st.sampled_from(["full", "minor"]),
    min_size=3,
    max_size=12,
)


def winner(records, order):
    """Return the record of a key that wins: (arrival, kind, time, value)."""

    def rank(record):
        arrival, kind, t, _ = record
        t = -t if order == "descending" else t
        return t, kind in ("+I", "+U") if order in ("flag", "number") else 0, arrival

    return max(records, key=rank)


def replay_changelog(table):
    """Replay the changelog and return the rows; each change must fit the rows before it."""
    rows = {}
    for snapshot in table.snapshots():
        ends = (snapshot.id - 1, snapshot.id, "changelog")
        changes = table.new_read_builder().between(*ends).with_row_kinds().to_arrow(EXECUTOR)
        for row in changes.to_pylist():
            if row["rowkind"] in ("-U", "-D"):
                assert rows.pop(row["k"]) == (row["t"], row["v"])
        for row in changes.to_pylist():
            if row["rowkind"] in ("+I", "+U"):
                assert row["k"] not in rows
                rows[row["k"]] = (row["t"], row["v"])
    return rows


@settings(max_examples=often(15), phases=[Phase.generate])
@given(SHAPES, st.sampled_from(sorted(ORDERS)), STEPS, st.integers(0, 2**16))
def test_older_record_is_never_row_in_any_order(tmp_path_factory, shape, order, steps, seed):
    catalog = open_catalog(str(tmp_path_factory.mktemp("kept")))
    catalog.create_database("db")
    options = {**LOG, **shape, **ORDERS[order]}
    if order == "number":
        del options["sequence.field"]
    table = new_table(catalog, options)
    arrivals, records, days = itertools.count(), {}, 0.0
    for number, step in enumerate(steps):
        days = 6.9 * number / len(steps)
        if isinstance(step, str):
            compact(table, days, step)
        else:
            write(table, *step)
            for key, kind, t, value in step:
                records.setdefault(key, []).append((next(arrivals), kind, t, value))
        if shape["bucket"] == "-2":
            compact(table, days, "minor")
        best = {key: winner(each, order) for key, each in records.items()}
        rows = {key: (t, v) for key, (_, kind, t, v) in best.items() if kind != "-D"}
        assert read(table) == rows
        assert table.count() == len(rows)
        key, value = seed % 6, seed % 4
        assert read(table, f"k = {key}") == {k: row for k, row in rows.items() if k == key}
        assert read(table, f"v = {value}") == {k: r for k, r in rows.items() if r[1] == value}
        limited = table.new_read_builder().with_limit(2).to_arrow(EXECUTOR)
        assert limited.num_rows == min(2, len(rows))
    if shape["changelog-producer"] == "lookup":
        compact(table, days)
        assert replay_changelog(table) == rows
    for later in (8, 16):  # once for lower levels, once for deletes kept on the top level
        compact(table, days + later)
    assert (deletes(table), read(table)) == (0, rows)
