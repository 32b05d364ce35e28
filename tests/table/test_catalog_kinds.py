"""Operations on a table have the same outcome in every kind of catalog."""

import datetime as dt

import pyarrow as pa
import pytest

from paimon_assets.engine import errors
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.control.catalog.rest_catalog import RestCatalog
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files, drop_rejected
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution.schema_change import SetOption, add_column
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog, open_catalog
from paimon_assets.engine.table.schema_changes import change_made_since
from paimon_assets.engine.table.system.system_table import SYSTEM_TABLES
from paimon_assets.engine.table.write.staged_batch import BatchRefusedError
from paimon_assets.review import promote
from paimon_assets.server.serve import ServeSettings
from tests.testkit.catalog_kinds import CATALOG_KINDS
from tests.testkit.errors import refused
from tests.testkit.faults.table_changes import CHANGES, COMMITS, prepare, read, rows_of
from tests.testkit.faults.writers import LATER
from tests.testkit.rest_server import serving
from tests.testkit.served_catalog import Answer, ServedCatalog
from tests.testkit.tables import new_catalog_in, new_table

pytestmark = pytest.mark.slow

EXECUTOR = EmbeddedExecutor(threads=1)
SCHEMA = Schema.of(
    {"part": "STRING", "id": "INT", "text": "STRING"},
    primary_keys=["part", "id"],
    partition_keys=["part"],
    options={"bucket": "1"},
)
FROM_A_SNAPSHOT = "fast forward"
"""The change whose branch begins with a snapshot; catalogs make branches from tags."""


@pytest.fixture(params=CATALOG_KINDS)
def catalog(request, tmp_path):
    """Return an empty catalog; no test may bypass it."""
    opened = CATALOG_KINDS[request.param](tmp_path)
    yield opened
    assert not getattr(opened._catalog, "bypassed", [])


@pytest.fixture
def table(catalog):
    """Return a table of three commits."""
    return _fill_table(catalog)


def _fill_table(catalog):
    made = new_table(catalog, SCHEMA, name="d.t")
    for commit in range(COMMITS):
        made.new_write_builder().write(rows_of(commit))
    return made


@pytest.fixture
def server(tmp_path):
    """Return a server; no test may bypass it."""
    made = ServedCatalog(str(tmp_path / "warehouse"))
    yield made
    assert made.bypassed == []


def outcome(kind, directory, change):
    """Return the state of a table after a change, in a catalog of some kind."""
    opened = CATALOG_KINDS[kind](directory)
    change.perform(prepare(directory, change, opened))
    found = opened.get_table("d.t")
    snapshots = list(found.snapshots())
    assert len({snapshot.uuid for snapshot in snapshots} - {None}) == len(snapshots)
    assert not getattr(opened._catalog, "bypassed", [])
    return (
        [(s.id, s.commit_kind, s.schema_id, read(found, s.id)) for s in snapshots],
        [(tag.name, tag.snapshot.id) for tag in found.tags.list()],
        (found.schema.id, found.schema.fields),
    )


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        *(("served", change) for change in CHANGES if change.name != FROM_A_SNAPSHOT),
        *(("external", change) for change in CHANGES[::4]),
        *(("rest", change) for change in CHANGES[1::4] if change.name != FROM_A_SNAPSHOT),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_table_changes_equal_those_on_file_system(kind, change, tmp_path):
    expected = outcome("filesystem", tmp_path / "filesystem", change)
    assert outcome(kind, tmp_path / kind, change) == expected


COMMITTING = [change for change in CHANGES if change.commits]


def test_unused_schema_is_rolled_back(table, catalog):
    changed = table.alter([add_column("more", "INT")])
    assert changed.rollback_schema(0).schema.id == 0
    assert catalog.get_table("d.t").schema.field_names == ("part", "id", "text")
    with pytest.raises(errors.NotFoundError, match="no schema 7"):
        changed.rollback_schema(7)
    again = catalog.get_table("d.t").alter([add_column("other", "INT")])
    assert (again.schema.id, again.schema.field_names[-1]) == (1, "other")
    row = pa.RecordBatch.from_pylist([{"part": "a", "id": 1}], to_arrow_schema(again.schema.fields))
    again.new_write_builder().write(pa.Table.from_batches([row]))
    with pytest.raises(errors.InvalidInputError, match="is of schema 1"):
        again.rollback_schema(0)
    assert catalog.get_table("d.t").schema.id == 1


def test_databases_have_properties(catalog):
    if isinstance(catalog._catalog, ServedCatalog):
        with refused(errors.UnsupportedFeatureError, kind="no-properties"):
            catalog.create_database("d", options={"a": "1"})
        return
    catalog.create_database("d", options={"a": "1", "b": "2"})
    catalog.create_database("plain")
    assert catalog.get_database("d").options == {"a": "1", "b": "2"}
    changed = catalog.alter_database("d", updates={"b": "3", "c": "4"}, removals=["a", "none"])
    assert changed.options == catalog.get_database("d").options == {"b": "3", "c": "4"}
    assert catalog.get_database("plain").options == {}
    assert catalog.get_database("d").location.endswith("/d.db")
    for call in (catalog.get_database, catalog.alter_database, catalog.list_functions):
        with refused(errors.NotFoundError, kind="database-not-found"):
            call("nowhere")
    with pytest.raises(errors.InvalidInputError, match="location"):
        catalog.alter_database("d", updates={"location": "/elsewhere"})
    catalog.drop_database("d")
    catalog.create_database("d")
    assert catalog.get_database("d").options == {}


@pytest.mark.parametrize("by", ["sql", "method"])
def test_views_and_foreign_files_keep_database(tmp_path, by):
    settings = ServeSettings(warehouse=str(tmp_path), insecure=True)
    with serving(settings) as client:
        served = open_catalog(metastore="rest", uri=f"http://127.0.0.1:{client.port}", token="any")  # noqa: S106
        for catalog in (open_catalog(str(tmp_path)), served):
            catalog.create_database("d")

            def drop(catalog=catalog):
                if by == "sql":
                    catalog.execute("DROP DATABASE d")
                else:
                    catalog.drop_database("d")

            catalog.views.create("d.v", "SELECT 1 AS a", {"a": "INT"})
            with pytest.raises(errors.InvalidInputError, match=r"view.*'v'"):
                drop()
            catalog.views.drop("d.v")
            foreign = tmp_path / "d.db" / "a.csv"
            foreign.write_text("1")
            with pytest.raises(errors.InvalidInputError, match=r"a\.csv"):
                drop()
            assert foreign.read_text() == "1"
            foreign.unlink()
            drop()
            assert catalog.list_databases() == []


def test_table_created_after_clients_look_stays(tmp_path, monkeypatch):
    settings = ServeSettings(warehouse=str(tmp_path), insecure=True)
    with serving(settings) as client:
        served = open_catalog(metastore="rest", uri=f"http://127.0.0.1:{client.port}", token="any")  # noqa: S106
        served.create_database("d")
        look = served._catalog.list_functions

        def then_another_creates(name):
            names = look(name)
            open_catalog(str(tmp_path)).create_table("d.t", SCHEMA)
            return names

        monkeypatch.setattr(served._catalog, "list_functions", then_another_creates)
        with pytest.raises(errors.InvalidInputError, match="'t'"):
            served.drop_database("d")
        assert open_catalog(str(tmp_path)).list_tables("d") == ["t"]


def test_server_functions_are_seen_by_every_catalog(tmp_path):
    made = ServeSettings(warehouse=str(tmp_path), insecure=True)
    warehouse = new_catalog_in(tmp_path, "d")
    body = {
        "name": "area",
        "inputParams": [{"id": 0, "name": "x", "type": "INT"}],
        "definitions": {"spark": {"type": "sql", "definition": "x * x"}},
        "deterministic": True,
    }
    with serving(made) as client:
        assert client.post("databases/d/functions", body).status == 200
        uri = f"http://127.0.0.1:{client.port}"
        behind = open_catalog(metastore="rest", uri=uri, token="any")  # noqa: S106
        for catalog in (warehouse, behind):
            assert catalog.list_functions("d") == ["area"]
            assert catalog.get_function("d.area")["definitions"] == body["definitions"]
            with refused(errors.NotFoundError, kind="function-not-found"):
                catalog.get_function("d.none")


@pytest.mark.parametrize("answer", [Answer.LOST_BEFORE, Answer.LOST_AFTER, Answer.RACE])
@pytest.mark.parametrize("change", COMMITTING[::3], ids=lambda change: change.name)
def test_one_commit_is_made_despite_lost_answer_or_race(change, answer, server, tmp_path):
    table = prepare(tmp_path, change, TableCatalog(server))
    server.answers.append(answer)
    change.perform(table)
    assert not server.answers
    assert [snapshot.id for snapshot in table.snapshots()] == list(range(1, COMMITS + 2))
    change.perform(table)
    assert table.latest_snapshot().id == COMMITS + 1


@pytest.mark.parametrize("done", [False, True], ids=["not done", "done"])
def test_unknown_outcome_deletes_nothing_and_retry_finds_it(done, table_of, server):
    table = table_of(server)
    before = read(table)
    writer = table.new_write_builder().with_commit_user("me").with_commit_identifier(1)
    server.answers.extend([Answer.LOST_BEFORE] * 4)
    if done:
        server.answers[3] = Answer.LOST_AFTER
        server.is_silent = True
    with pytest.raises(errors.CommitUnknownError):
        writer.write(rows_of(8))
    server.is_silent = False
    assert table.latest_snapshot().id == COMMITS + done
    assert (read(table) == before) is not done
    writer.write(rows_of(8))
    assert table.latest_snapshot().id == COMMITS + 1
    assert len(read(table)) > len(before)


@pytest.fixture
def table_of():
    """Make the table of three commits in a server."""
    return lambda server: _fill_table(TableCatalog(server))


def files_below(table):
    """Return the files of a table that a commit writes."""
    listing, found = [table.path], []
    while listing:
        for status in table.state.file_io.list_directory(listing.pop()):
            if status.is_directory:
                listing.append(status.path)
            else:
                found.append(status.path)
    return {path for path in found if "/manifest/" in path or "/bucket-" in path}


def test_commit_after_lost_race_is_planned_again(table_of, server):
    table = table_of(server)
    other = TableCatalog(server).get_table("d.t").new_write_builder()
    server.meddling = lambda: other.write(rows_of(20))
    table.new_write_builder().write(rows_of(30))
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3, 4, 5]
    assert len(read(table)) == 6 + 4 + 4


def test_commit_on_concurrently_undone_base_is_planned_again(table_of, server):
    table = table_of(server)
    server.meddling = lambda: server.rollback_to(Identifier("d", "t"), 1)
    table.new_write_builder().write(rows_of(30))
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2]
    assert len(read(table)) == 4 + 4


def test_definite_refusal_of_server_leaves_no_file(table_of, server):
    table = table_of(server)
    before = files_below(table)
    server.answers.append(Answer.REFUSED)
    with pytest.raises(errors.StorageError, match="no room"):
        table.new_write_builder().write(rows_of(8))
    assert files_below(table) == before
    assert table.latest_snapshot().id == COMMITS


@pytest.mark.way_out("removed-files")
def test_files_of_failed_commit_are_not_committed_later(table_of, server):
    table = table_of(server)
    builder = table.new_write_builder()
    messages = EXECUTOR.map_rows(builder.prepare(), rows_of(8)).messages
    server.answers.append(Answer.REFUSED)
    with pytest.raises(errors.StorageError, match="no room"):
        builder.commit(messages)
    with refused(errors.InvalidInputError, kind="removed-files"):
        builder.with_commit_identifier(1).commit(messages)
    assert table.latest_snapshot().id == COMMITS
    assert read(table) == read(table.refresh())
    builder.with_commit_identifier(1).write(rows_of(8))
    assert table.latest_snapshot().id == COMMITS + 1


def test_recreated_table_is_another_table(table_of, server):
    table = table_of(server)
    opened = TableCatalog(server)
    messages = EXECUTOR.map_rows(table.new_write_builder().prepare(), rows_of(8)).messages
    opened.drop_table("d.t")
    again = opened.create_table("d.t", SCHEMA)
    with pytest.raises(errors.NotFoundError):
        table.new_write_builder().commit(messages)
    with pytest.raises(errors.NotFoundError):
        table.alter([add_column("more", "INT")])
    assert again.latest_snapshot() is None
    assert again.refresh().schema.id == 0


def test_change_with_lost_answer_is_looked_up(table_of, server):
    table = table_of(server)
    server.loses_answer = True
    assert table.alter([add_column("more", "INT")]).schema.id == 1
    server.loses_answer = True
    assert table.tags.create("one", 1).snapshot.id == 1
    server.loses_answer = True
    assert table.tags.create("timed", time_retained=dt.timedelta(days=1)).snapshot.id == COMMITS
    assert not server.loses_answer


def test_statistics_are_sums_of_changes(table_of, server):
    table = table_of(server)
    found = {item.spec["part"]: item for item in server.statistics}
    assert {part: (item.record_count, item.file_count) for part, item in found.items()} == {
        "a": (2, 1),
        "b": (2, 1),
    }
    now = dt.datetime.now(dt.UTC).timestamp() * 1000
    assert all(now - 600_000 < item.last_file_creation_time <= now for item in found.values())
    assert all(item.total_buckets == 1 for item in found.values())
    table.drop_partitions([{"part": "a"}])
    [gone] = server.statistics
    assert (gone.record_count, gone.file_count) == (-6, -3)
    assert gone.file_size_in_bytes < 0


def test_catalog_changes_its_schema(table, catalog):
    assert table.alter([add_column("more", "INT")]).schema.id == 1
    assert catalog.alter_table("d.t", [SetOption(key="num-levels", value="4")]).schema.id == 2
    wider = rows_of(5).append_column("late", pa.array([1] * 4, pa.int32()))
    writing = catalog.get_table("d.t", options={"write.merge-schema": "true"})
    writing.new_write_builder().write(wider)
    found = table.refresh()
    assert (found.schema.id, found.schema.fields[-1].name) == (3, "late")
    assert found.latest_snapshot().schema_id == 3
    assert found.state.store.created_ms == table.state.store.created_ms > 0
    ids = found.system_table("schemas").to_arrow().column("schema_id").to_pylist()
    assert ids == [0, 1, 2, 3]
    with pytest.raises(errors.InvalidInputError):
        found.alter([add_column("more", "INT")])


def test_change_checked_on_another_schema_is_checked_again(table, catalog):
    def meddle(plan):
        if plan.base.id == 0:
            catalog.alter_table("d.t", [add_column("before", "INT")])

    assert table.alter_checked([add_column("more", "INT")], judged=meddle).base.id == 1
    found = table.refresh()
    assert [field.name for field in found.schema.fields][-2:] == ["before", "more"]
    assert (
        change_made_since(
            found.state.store, [add_column("more", "INT")], table.state.store.created_ms
        )
        is not None
    )


def test_pull_request_is_promoted_where_main_has_not_moved(table, catalog):
    preview = TableCatalog(catalog._catalog, preview="pr")
    side = preview.get_table("d.t")
    side.new_write_builder().write(rows_of(6))
    side.alter([add_column("more", "INT")])
    assert (side.latest_snapshot().id, table.latest_snapshot().id) == (4, 3)
    before, after = read(table), read(preview.get_table("d.t"))
    [shown] = promote(catalog, "pr", dry_run=True)
    assert (shown.refusal, shown.is_promoted, read(table)) == ("", False, before)
    table.new_write_builder().write(rows_of(7))
    with refused(errors.CommitConflictError, "which the branch lacks", kind="branch-behind"):
        table.branches.fast_forward("pr", keeps_main=True)
    assert promote(catalog, "pr")[0].refusal.startswith("main has moved from snapshot 3 to ")
    table.rollback_to(3)
    assert read(table.refresh()) == before
    assert promote(catalog, "pr")[0].is_promoted
    assert (read(catalog.get_table("d.t")), table.refresh().schema.id) == (after, 1)
    assert (table.branches.list(), table.tags.list()) == ({}, [])


def test_tags_branches_and_consumers_are_stored_by_catalog(table, catalog):
    table.tags.create("one", 1)
    table.tags.create("kept", time_retained=dt.timedelta(days=1))
    with pytest.raises(errors.AlreadyExistsError):
        table.tags.create("one")
    assert table.tags.create("one", ignore_if_exists=True).snapshot.id == 1
    with pytest.raises(errors.NotFoundError):
        table.tags.create("none", 9)
    assert [(tag.name, tag.snapshot.id) for tag in table.tags.list()] == [("kept", 3), ("one", 1)]
    assert table.tags.get("kept").time_retained == dt.timedelta(days=1)

    table.branches.create("side", tag="one")
    side = catalog.get_table("d.t$branch_side")
    side.new_write_builder().write(rows_of(6))
    assert (side.latest_snapshot().id, table.latest_snapshot().id) == (2, 3)
    assert list(table.branches.list()) == ["side"]
    side.alter([add_column("more", "INT")])
    assert table.refresh().schema.id == 0
    assert table.branches.fast_forward("side").id == table.latest_snapshot().id == 2
    assert read(table) == read(side)
    assert table.refresh().schema.id == 1
    table.branches.delete("side")
    assert list(table.branches.list()) == []
    with pytest.raises(errors.NotFoundError):
        catalog.get_table("d.t$branch_side")

    assert table.consumers.advance("me", 2) == 2
    assert table.consumers.advance("me", 1) == 2
    assert table.consumers.list() == {"me": 2}
    table.consumers.delete("me")
    assert table.consumers.next_snapshot("me") is None
    table.tags.delete("one")
    assert table.tags.get_or_none("one") is None


def test_changes_are_read_up_to_newest_only(table):
    plan = table.new_read_builder().with_consumer("me", start=3).plan()
    assert (plan.next_snapshot, len(plan.splits)) == (COMMITS + 1, 2)
    table.consumers.advance("me", plan.next_snapshot)
    again = table.new_read_builder().with_consumer("me").plan()
    assert (again.next_snapshot, len(again.splits)) == (COMMITS + 1, 0)


def test_rollback_undoes_later_commits(table):
    table.tags.create("first", 1)
    table.tags.create("last", 3)
    before = read(table, 2)
    done = table.rollback_to(2)
    assert (done.snapshot.id, done.snapshots, done.tags) == (2, (3,), ("last",))
    assert table.latest_snapshot().id == 2
    assert read(table) == before
    table.new_write_builder().write(rows_of(7))
    assert table.latest_snapshot().id == 3
    assert table.rollback_to("first").snapshot.id == 1
    assert [snapshot.id for snapshot in table.snapshots()] == [1]
    with pytest.raises(errors.NotFoundError):
        table.rollback_to(3)


def test_batch_is_checked_on_its_own_branch(table):
    def refuse(batch):
        assert len(read(table)) < 100
        raise BatchRefusedError(f"{batch.physical_rows} rows are too many")

    with pytest.raises(BatchRefusedError):
        table.new_write_builder().with_audit(refuse).write(rows_of(8))
    assert table.latest_snapshot().id == COMMITS
    [branch] = table.branches.list()
    assert table.at_branch(branch).latest_snapshot().total_record_count == 4
    dropped = drop_rejected(table.state.store, before_millis=LATER.now_millis())
    assert dropped.branches == (branch,)
    table.new_write_builder().with_audit(lambda batch: None).write(rows_of(8))
    assert table.latest_snapshot().id == COMMITS + 1
    assert list(table.branches.list()) == []


@pytest.mark.parametrize("kind", sorted(SYSTEM_TABLES))
def test_system_tables_show_table_of_every_catalog(kind, tmp_path):
    shapes = set()
    for name, opening in CATALOG_KINDS.items():
        opened = opening(tmp_path / name)
        opened.create_database("d")
        options = {"row-tracking.enabled": "true"} if kind == "row_tracking" else {"bucket": "1"}
        keys = [] if kind == "row_tracking" else ["part", "id"]
        schema = Schema.of(
            {"part": "STRING", "id": "INT", "text": "STRING"},
            primary_keys=keys,
            options={**options},
        )
        made = opened.create_table("d.t", schema)
        if kind != "row_tracking":
            made.new_write_builder().write(rows_of(0))
            made.tags.create("one")
            made.branches.create("side", tag="one")
            made.consumers.reset("me", 1)
        shapes.add(opened.get_system_table(f"d.t${kind}").to_arrow().num_rows)
        assert not getattr(opened._catalog, "bypassed", [])
    assert len(shapes) == 1


def test_system_tables_of_catalog(table, catalog):
    [row] = catalog.get_system_table("sys.tables").to_arrow().to_pylist()
    assert (row["database_name"], row["table_name"], row["record_count"]) == ("d", "t", 12)
    owners = {ServedCatalog: ("me", None), RestCatalog: ("anonymous", "anonymous")}
    expected = owners.get(type(catalog._catalog), (None, None))
    assert (row["owner"], row["created_by"]) == expected
    assert catalog.get_system_table("sys.partitions").to_arrow().num_rows == 2


def test_rename_keeps_rows(table, catalog):
    catalog.rename_table("d.t", "d.other")
    renamed = catalog.get_table("d.other")
    assert len(read(renamed)) == 6
    with pytest.raises(errors.NotFoundError):
        table.new_write_builder().write(rows_of(7))
    renamed.new_write_builder().write(rows_of(7))
    assert renamed.latest_snapshot().id == COMMITS + 1
    assert catalog.list_tables("d") == ["other"]


@pytest.mark.way_out("snapshot-listing")
def test_files_missing_in_listing_stop_deletion(table_of, server):
    table = table_of(server)
    (newest,) = server._serve(Identifier("d", "t")).newest.values()
    path = f"{table.path}/snapshot/snapshot-{newest.id}"
    data = table.state.file_io.read_bytes(path)
    table.state.file_io.delete_file(path)
    calls = (
        lambda: clean_orphan_files(table._store, older_than_ms=0, dry_run=False, clock=LATER),
        lambda: table.maintenance().run("expire_snapshots"),
    )
    for deleting in calls:
        with refused(errors.StorageError, kind="snapshot-listing"):
            deleting()
    LocalFileIO().write_bytes(path, data)
    for deleting in calls:
        deleting()


def test_unsupported_request_is_refused_with_way_out(table_of, server):
    table = table_of(server)
    table.tags.create("one", 1)
    for ask in (
        lambda: table.tags.rename("one", "two"),
        lambda: table.tags.replace("one", table.latest_snapshot()),
        lambda: table.branches.create("side", snapshot_id=1),
    ):
        with refused(errors.UnsupportedFeatureError, kind="server-managed"):
            ask()
    assert [tag.name for tag in table.tags.list()] == ["one"]
