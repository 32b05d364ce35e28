"""Changes between two snapshots, in every mode."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.tables import new_catalog_in, new_table, read, write

EXECUTOR = EmbeddedExecutor(threads=2)
COLUMNS = {"id": "BIGINT", "p": "STRING", "v": "DOUBLE", "kind": "STRING"}


def keyed_table(catalog, name="db.t", **options):
    return new_table(
        catalog,
        COLUMNS,
        name=name,
        primary_keys=["id", "p"],
        partition_keys=["p"],
        options={"bucket": "2", "rowkind.field": "kind", **options},
    )


def plain(catalog, name="db.a", **options):
    return new_table(catalog, {"id": "BIGINT", "v": "DOUBLE"}, name=name, options=options)


def read_columns(builder, *columns):
    return read(builder, columns or None)


@pytest.fixture
def table(catalog):
    made = keyed_table(catalog)
    write(made, (1, "a", 1.0, "+I"), (2, "a", 2.0, "+I"), (3, "b", 3.0, "+I"))
    write(made, (1, "a", 1.5, "+U"), (2, "a", 2.0, "-D"))
    write(made, (4, "a", 4.0, "+I"), (1, "a", 1.5, "+U"), (3, "b", 3.0, "+U"))
    return made


def test_delta_has_every_record_or_last_row_of_key(table):
    changes = table.new_read_builder().between(1, 3)
    assert read_columns(changes, "id", "v") == [(1, 1.5), (3, 3.0), (4, 4.0)]
    assert read_columns(changes.with_row_kinds(), "id") == [
        ("+I", 4), ("+U", 1), ("+U", 1), ("+U", 3), ("-D", 2)
    ]  # fmt: skip


def test_diff_leaves_out_equal_rows(table):
    changes = table.new_read_builder().between(2, 3, "diff")
    # Key 3 was written again with another kind, which is a column of the table.
    assert read_columns(changes.with_row_kinds(), "id") == [("+I", 4), ("+U", 3)]
    assert read_columns(table.new_read_builder().between(1, 3, "diff").with_row_kinds(), "id") == [
        ("+I", 4), ("+U", 1), ("+U", 3), ("-D", 2)
    ]  # fmt: skip
    assert read_columns(changes, "id") == [(3,), (4,)]


def test_diff_shows_old_values_of_rows_that_are_gone(table):
    changes = table.new_read_builder().between(1, 2, "diff").with_row_kinds()
    assert read_columns(changes, "id", "v") == [("+U", 1, 1.5), ("-D", 2, 2.0)]


def test_diff_of_filtered_view(table):
    changes = table.new_read_builder().with_filter("v < 1.2 or v > 3.5").with_row_kinds()
    assert read_columns(changes.between(1, 3, "diff"), "id", "v") == [
        ("+I", 4, 4.0),
        ("-D", 1, 1.0),
    ]


def test_changes_before_first_snapshot_are_all_rows(table):
    for mode in ("delta", "diff"):
        changes = table.new_read_builder().between(0, 1, mode).with_row_kinds()
        assert read_columns(changes, "id") == [("+I", 1), ("+I", 2), ("+I", 3)]


def test_no_changes_between_equal_times(table):
    for mode in ("auto", "delta", "changelog", "diff"):
        assert read_columns(table.new_read_builder().between(2, 2, mode)) == []


def test_tags_are_compared_by_their_states(table):
    table.tags.create("old", 1)
    table.tags.create("new", 3)
    LocalFileIO().delete_file(f"{table.path}/snapshot/snapshot-1")
    changes = table.new_read_builder().between("old", "new").with_row_kinds()
    assert read_columns(changes, "id") == [("+I", 4), ("+U", 1), ("+U", 3), ("-D", 2)]
    with pytest.raises(NotFoundError, match="no tag 'other'"):
        table.new_read_builder().between("old", "other").plan()
    with pytest.raises(InvalidInputError, match="tag 'old' is before tag 'new'"):
        table.new_read_builder().between("new", "old").plan()


def test_times_select_snapshots_between(table):
    first, _, last = table.snapshots()
    builder = table.new_read_builder()
    everything = builder.between_timestamps(first.time_millis - 1, last.time_millis)
    assert read_columns(everything, "id") == [(1,), (3,), (4,)]
    assert read_columns(builder.between_timestamps(last.time_millis, last.time_millis + 9)) == []
    assert read_columns(builder.between_timestamps("1999-01-01", "2000-01-01 00:00:00")) == []


def test_expired_start_names_oldest_snapshot(table):
    LocalFileIO().delete_file(f"{table.path}/snapshot/snapshot-1")
    for mode, start in (("delta", 0), ("diff", 1)):
        with refused(NotFoundError, "has expired; the oldest is 2", kind="snapshot-expired"):
            table.new_read_builder().between(start, 3, mode).plan()
    assert read_columns(table.new_read_builder().between(1, 3, "delta"), "id") == [(1,), (3,), (4,)]
    with pytest.raises(NotFoundError, match="Snapshot 7 "):
        table.new_read_builder().between(1, 7).plan()


def test_compactions_are_left_out_and_overwrites_are_named(catalog):
    table = plain(catalog)
    for number in range(3):
        write(table, (number, 0.0))
    files = table.state.live_files()
    path = f"{table.path}/snapshot/snapshot-2"
    data = LocalFileIO().read_bytes(path)
    LocalFileIO().replace(path, data.replace(b'"APPEND"', b'"OVERWRITE"'))
    plan = table.new_read_builder().between(0, 3).plan()
    assert plan.skipped_snapshots == (2,)
    assert plan.next_snapshot == 4
    LocalFileIO().replace(path, data.replace(b'"APPEND"', b'"COMPACT"'))
    assert read_columns(table.new_read_builder().between(0, 3), "id") == [(0,), (2,)]
    assert len(files) == 3


def test_append_table_reports_added_files(catalog):
    table = plain(catalog)
    write(table, (1, 1.0))
    write(table, (2, 2.0), (3, 3.0))
    for mode in ("delta", "diff"):
        changes = table.new_read_builder().between(1, 2, mode).with_row_kinds()
        assert read_columns(changes, "id") == [("+I", 2), ("+I", 3)]
        assert read_columns(changes) == [("+I", 2, 2.0), ("+I", 3, 3.0)]


def test_removed_append_files_need_kinds(catalog):
    table = plain(catalog)
    write(table, (1, 1.0))
    write(table, (2, 2.0))
    backwards = table.new_read_builder().between("late", "early")
    table.tags.create("late", 2)
    early = LocalFileIO().read_bytes(f"{table.path}/snapshot/snapshot-1")
    LocalFileIO().write_bytes(f"{table.path}/tag/tag-early", early.replace(b'"id":1', b'"id":3'))
    assert read_columns(backwards.with_row_kinds()) == [("-D", 2, 2.0)]
    with pytest.raises(InvalidInputError, match="Keep row kinds"):
        backwards.plan()


def test_unsupported_incremental_reads_are_refused_by_name(catalog):
    table = plain(catalog)
    write(table, (1, 1.0))
    builder = table.new_read_builder().between(0, 1)
    for option in ({"data-evolution.enabled": "true"}, {"scan.fallback-branch": "b"}):
        with pytest.raises(UnsupportedFeatureError, match=next(iter(option))):
            builder.with_options(option).plan()
    with pytest.raises(InvalidInputError, match="auto, delta, changelog, diff"):
        builder.with_options({"incremental-between-scan-mode": "all"}).plan()


CHANGES = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, 7),
            st.sampled_from("ab"),
            st.sampled_from([0.0, 1.0, float("nan")]),
            st.sampled_from(["+I", "+U", "-D"]),
        ),
        min_size=1,
        max_size=6,
    ),
    min_size=2,
    max_size=5,
)


@settings(max_examples=often(12), deadline=None)
@given(commits=CHANGES, data=st.data())
def test_changes_lead_from_older_state_to_newer(tmp_path_factory, commits, data):
    table = keyed_table(new_catalog_in(tmp_path_factory.mktemp("warehouse")))
    for rows in commits:
        write(table, *rows)
    end = data.draw(st.integers(1, len(commits)))
    start = data.draw(st.integers(0, end))
    mode = data.draw(st.sampled_from(["delta", "diff"]))
    changes = table.new_read_builder().between(start, end, mode).with_row_kinds()
    state = _state(commits[:start])
    for kind, *row in rows_in_order(changes):
        key = tuple(row[:2])
        if kind == "-D":
            assert mode == "delta" or key in state
            state.pop(key, None)
        else:
            assert mode == "delta" or (kind == "+U") == (key in state)
            state[key] = repr(row)
    assert state == _state(commits[:end])


def rows_in_order(builder):
    return [tuple(row.values()) for row in builder.to_arrow().to_pylist()]


def _state(commits):
    state = {}
    for rows in commits:
        for row in rows:
            if row[3] == "-D":
                state.pop(row[:2], None)
            else:
                state[row[:2]] = repr(list(row))
    return state


@pytest.mark.parametrize(
    "options",
    [{"merge-engine": "first-row"}, {"deletion-vectors.enabled": "true", "bucket": "1"}],
    ids=["first row", "vectors"],
)
def test_uncompacted_files_are_read_only_by_streams(catalog, options):
    columns = {"id": "BIGINT", "v": "DOUBLE"}
    options = {"bucket": "1", **options}
    table = new_table(catalog, columns, (1, 1.0), primary_keys=["id"], options=options)
    write(table, (1, 2.0), (2, 2.0))
    added = table.new_read_builder().between(1, 2, "delta")
    assert read_columns(added) == []
    assert read_columns(added.with_waiting_rows()) == [(1, 2.0), (2, 2.0)]
    streamed = table.new_read_builder().with_consumer("c", start=2)
    assert read_columns(streamed) == [(1, 2.0), (2, 2.0)]


LOGGED_OPTIONS = {"bucket": "1", "rowkind.field": "kind", "merge-engine": "aggregation"}
LOGGED_EVENTS = (
    [(1, 10, "+I"), (2, 20, "+I")],
    [(1, 10, "-U"), (3, 30, "+I")],
    [(1, 15, "+U"), (2, 20, "-D")],
)


@pytest.fixture
def logged_table(catalog):
    """A table whose delta files are its changelog files too, as `changelog-producer` = input."""
    made = new_table(
        catalog,
        {"id": "BIGINT", "v": "BIGINT", "kind": "STRING"},
        primary_keys=["id"],
        options={**LOGGED_OPTIONS, "fields.v.aggregate-function": "sum"},
    )
    for rows in LOGGED_EVENTS:
        snapshot = write(made, *rows)
        with_changelog = replace(snapshot, changelog_manifest_list=snapshot.delta_manifest_list)
        path = f"{made.path}/snapshot/snapshot-{snapshot.id}"
        LocalFileIO().replace(path, snapshot_to_json(with_changelog))
    return made


def pairs(builder):
    return rows_in_order(builder.with_columns(["id", "v"]))


def test_changes_with_kinds_are_read_in_order(logged_table):
    changes = logged_table.new_read_builder().between(0, 3, "changelog").with_row_kinds()
    assert pairs(changes) == [
        ("+I", 1, 10), ("+I", 2, 20), ("-U", 1, 10), ("+I", 3, 30), ("+U", 1, 15), ("-D", 2, 20)
    ]  # fmt: skip
    assert all(split.is_streaming for split in changes.plan().splits)


def test_changes_without_kinds_are_last_rows(logged_table):
    assert pairs(logged_table.new_read_builder().between(0, 3, "changelog")) == [(1, 15), (3, 30)]


def test_streaming_split_needs_column_of_kinds(logged_table):
    plan = logged_table.new_read_builder().between(0, 3, "changelog").with_row_kinds().plan()
    context = replace(plan.context, columns=("id",))
    with pytest.raises(UnsupportedFeatureError, match="column 'rowkind'"):
        list(EXECUTOR.map_splits(context, plan.splits))


def test_changelog_producer_selects_mode(logged_table):
    audit = logged_table.copy({"changelog-producer": "lookup", "incremental-between": "1,3"})
    found = audit.system_table("audit_log").to_arrow().select(["rowkind", "id"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [("-U", 1), ("+I", 3), ("+U", 1), ("-D", 2)]


def test_changelog_outlives_its_snapshot(logged_table):
    storage, path = LocalFileIO(), logged_table.path
    changes = logged_table.new_read_builder().between(1, 3, "changelog").with_row_kinds()
    for number in (1, 2):
        data = storage.read_bytes(f"{path}/snapshot/snapshot-{number}")
        storage.delete_file(f"{path}/snapshot/snapshot-{number}")
    with pytest.raises(NotFoundError, match="snapshot 2 has expired; the oldest is 3"):
        changes.plan()
    storage.write_bytes(f"{path}/changelog/changelog-2", data)
    assert pairs(changes) == [("-U", 1, 10), ("+I", 3, 30), ("+U", 1, 15), ("-D", 2, 20)]


@pytest.mark.parametrize("batch_rows", [1, 2, 4096])
def test_binlog_shows_update_as_one_row(logged_table, batch_rows):
    options = {"incremental-between": "1,3", "incremental-between-scan-mode": "changelog"}
    several = {"read.batch-size": str(batch_rows)}
    binlog = logged_table.copy({**options, **several}).system_table("binlog")
    found = binlog.to_arrow()
    assert found.schema == binlog.arrow_schema
    rows = [tuple(row.values())[:3] for row in found.to_pylist()]
    # The -U of key 1 and its +U lie in two commits, with another row between them.
    assert rows == [("-U", [1], [10]), ("+I", [3], [30]), ("+U", [1], [15]), ("-D", [2], [20])]


def test_binlog_packs_neighbours(catalog):
    made = new_table(
        catalog,
        {"id": "BIGINT", "v": "BIGINT", "kind": "STRING"},
        *[(7, 1, "-U"), (7, 2, "+U"), (8, 3, "-U")],
        name="db.p",
        primary_keys=["v"],
        options={"bucket": "1", "rowkind.field": "kind"},
    )
    for options in ({}, {"read.batch-size": "1"}):
        found = made.copy(options).system_table("binlog").to_arrow().to_pylist()
        assert [tuple(row.values())[:3] for row in found] == [
            ("+U", [7, 7], [1, 2]), ("-U", [8], [3])
        ]  # fmt: skip
