"""Maintenance that options ask for: expired partitions, tags by period, few manifests."""

import datetime as dt
import itertools
import json
from uuid import uuid4

import pytest
from msgspec.structs import replace

from paimon_assets import InvalidInputError, NotFoundError, Schema, StorageError
from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.commit_message import CommitMessage, CompactIncrement
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.ledgers import pointed_ledger
from paimon_assets.engine.control.maintenance import tag_files
from paimon_assets.engine.control.maintenance.expire_partitions import (
    compact_manifests,
    expire_partitions,
)
from paimon_assets.engine.control.maintenance.expire_snapshots import (
    Retention,
    expire_changelogs,
    expire_snapshots,
)
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.control.partition_age import PartitionTime
from paimon_assets.engine.control.rollback import rollback_to_snapshot
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.snapshot import LEDGER_PROPERTY_PREFIX, CommitKind
from paimon_assets.engine.spec.options.all_options import Options
from tests.testkit.errors import refused
from tests.testkit.faulty_fileio import Fault, FaultyFileIO
from tests.testkit.metadata_tables import (
    ORPHAN,
    FixedClock,
    commit,
    keyed_file,
    live_names,
    manifest_files,
    message,
    new_store,
    plain_file,
    referenced_manifests,
)

DAY = dt.timedelta(days=1)


def millis(*parts):
    """Return the epoch milliseconds of a local time."""
    return int(dt.datetime(*parts).timestamp() * 1000)  # local on purpose


def partitioned_store(tmp_path, columns, options, *, rows):
    """Return a table with one file in each partition, called by its number."""
    schema = Schema.of(columns, partition_keys=list(columns)[:-1], options=options)
    store = new_store(tmp_path, schema)
    types = [field.type for field in store.partitions.fields]
    commit(
        store,
        *[
            message(plain_file(str(number)), partition=serialize_row(values, types))
            for number, values in enumerate(rows)
        ],
    )
    return store


@pytest.mark.parametrize(
    ("options", "spec", "expected"),
    [
        ({}, {"dt": "2024-01-31"}, dt.datetime(2024, 1, 31)),
        ({}, {"dt": "2024-1-3 4:05:06"}, dt.datetime(2024, 1, 3, 4, 5, 6)),
        ({}, {"dt": "20240131"}, None),
        ({}, {"dt": ""}, None),
        ({}, {"dt": "2024-02-31"}, None),
        (
            {"partition.timestamp-formatter": "yyyyMMdd'T'HH"},
            {"dt": "20240131T07"},
            dt.datetime(2024, 1, 31, 7),
        ),
        (
            {"partition.timestamp-pattern": "$year-$month-01 $hour:00:00"},
            {"year": "2024", "month": "5", "h": "x", "hour": "9"},
            dt.datetime(2024, 5, 1, 9),
        ),
    ],
)
def test_partition_values_are_times(options, spec, expected):
    assert PartitionTime(Options(options)).of(spec) == expected


@pytest.mark.parametrize("formatter", ["yyyy-MM-dd EEE", "yyyy-yyyy"])
def test_unknown_time_format_is_refused(formatter):
    with refused(InvalidInputError, formatter, kind="partition-time"):
        PartitionTime(Options({"partition.timestamp-formatter": formatter}))


def test_old_partitions_expire_in_one_commit(tmp_path):
    days = ["2024-01-01", "2024-01-02", "2024-01-03", None, "someday"]
    options = {"partition.expiration-time": "7 d"}
    columns = {"dt": "STRING", "v": "INT"}
    store = partitioned_store(tmp_path, columns, options, rows=[[day] for day in days])
    clock = FixedClock(now=millis(2024, 1, 9, 12))
    planned = expire_partitions(store, commit_user="a", clock=clock, dry_run=True)
    assert planned.partitions == ("dt=2024-01-01", "dt=2024-01-02")
    assert live_names(store) == ["0", "1", "2", "3", "4"]
    done = expire_partitions(store, commit_user="a", clock=clock)
    assert (done.partitions, done.files) == (planned.partitions, 2)
    assert done.snapshot.commit_kind is CommitKind.OVERWRITE
    assert live_names(store) == ["2", "3", "4"]
    assert expire_partitions(store, commit_user="b", clock=clock).snapshot is None


def test_date_partitions_expire_up_to_limit(tmp_path):
    options = {"partition.expiration-time": "1 d", "partition.expiration-max-num": "1"}
    columns = {"day": "DATE", "v": "INT"}
    store = partitioned_store(tmp_path, columns, options, rows=[[19_724], [19_723]])
    done = expire_partitions(store, commit_user="a", clock=FixedClock(now=millis(2025, 1, 1)))
    assert (done.files, done.partitions) == (1, ("day=2024-01-01",))
    assert live_names(store) == ["0"]  # January 2nd


def test_newest_file_is_age_of_partition_on_request(tmp_path):
    options = {"partition.expiration-time": "1 d", "partition.expiration-strategy": "update-time"}
    columns = {"part": "INT", "v": "INT"}
    store = new_store(tmp_path, Schema.of(columns, partition_keys=["part"], options=options))
    types = [field.type for field in store.partitions.fields]
    for part, created in ((1, dt.datetime(2024, 1, 1)), (2, dt.datetime(2024, 1, 3))):
        stamp = int(created.replace(tzinfo=dt.UTC).timestamp() * 1000)  # local, taken as UTC
        file = plain_file(str(part), creation_time=stamp)
        commit(store, message(file, partition=serialize_row([part], types)))
    done = expire_partitions(store, commit_user="a", clock=FixedClock(now=millis(2024, 1, 3, 12)))
    assert done.partitions == ("part=1",)


def commit_at(store, *parts, watermark=None):
    clock = FixedClock(now=millis(*parts))
    return FileStoreCommit(store, clock=clock).commit(
        [message(plain_file())], commit_user=str(parts), commit_identifier=1, watermark=watermark
    )


def test_first_snapshot_after_day_is_tagged_with_it(tmp_path):
    options = {"tag.automatic-creation": "process-time", "tag.creation-delay": "1 h"}
    store = new_store(tmp_path, Schema.of({"a": "BIGINT"}, options=options))
    commit_at(store, 2024, 1, 1, 10)
    assert tag_files.create_auto_tags(store, dry_run=True).created == ("2023-12-31",)
    assert tag_files.create_auto_tags(store).created == ("2023-12-31",)
    commit_at(store, 2024, 1, 1, 20)
    commit_at(store, 2024, 1, 2, 0, 30)  # within the delay
    commit_at(store, 2024, 1, 2, 1)
    commit_at(store, 2024, 1, 5, 7)
    assert tag_files.create_auto_tags(store).created == ("2024-01-01", "2024-01-04")
    assert [tag.snapshot.id for tag in store.tags.list()] == [1, 4, 5]
    assert tag_files.create_auto_tags(store).created == ()


@pytest.mark.parametrize("completes", ["false", "true"])
@pytest.mark.parametrize("first", [True, False])
def test_future_snapshot_time_does_not_stop_tags(tmp_path, completes, first):
    options = {
        "tag.automatic-creation": "process-time",
        "tag.automatic-completion": completes,
        "tag.num-retained-max": "3",
    }
    store = new_store(tmp_path, Schema.of({"a": "BIGINT"}, options=options))
    if not first:
        commit_at(store, 2024, 1, 1, 10)
        assert tag_files.create_auto_tags(store).created == ("2023-12-31",)
    commit_at(store, 2034, 1, 1, 20)
    ahead = tag_files.create_auto_tags(store).created
    assert ahead == (("2024-01-01",) if completes == "true" and not first else ("2033-12-31",))
    for day in range(2, 7):
        commit_at(store, 2024, 1, day, 1)
    made = tag_files.create_auto_tags(store)
    assert made.created[-4:] == ("2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05")
    assert [tag.name for tag in store.tags.list()] == ["2024-01-03", "2024-01-04", "2024-01-05"]
    assert tag_files.create_auto_tags(store).created == ()


def test_missed_periods_get_tags(tmp_path):
    options = {
        "tag.automatic-creation": "process-time",
        "tag.creation-period": "hourly",
        "tag.period-formatter": "without_dashes_and_spaces",
        "tag.automatic-completion": "true",
    }
    store = new_store(tmp_path, Schema.of({"a": "BIGINT"}, options=options))
    for time in ((1,), (5,), (5, 10), (5, 20), (5, 30), (5, 40)):
        commit_at(store, 2024, 1, 1, *time)
    made = ("2024010100", "2024010101", "2024010102", "2024010103", "2024010104")
    assert tag_files.create_auto_tags(store).created == made
    assert [tag.snapshot.id for tag in store.tags.list()] == [1, 2, 3, 4, 5]
    commit_at(store, 2024, 1, 1, 6)
    assert tag_files.create_auto_tags(store).created == ("2024010105",)


def test_oldest_automatic_tags_expire(tmp_path):
    options = {
        "tag.automatic-creation": "watermark",
        "tag.creation-period": "two-hours",
        "tag.period-formatter": "without_dashes",
        "tag.num-retained-max": "2",
        "tag.default-time-retained": "30 d",
    }
    store = new_store(tmp_path, Schema.of({"a": "BIGINT"}, options=options))
    store.tags.create("by hand", commit_at(store, 2024, 1, 1, 0))
    for hour in (5, 6, 9, 10):
        commit_at(store, 2024, 1, 1, hour, watermark=millis(2024, 1, 1, hour))
    made = tag_files.create_auto_tags(store)
    assert made.created == ("20240101 02", "20240101 04", "20240101 06", "20240101 08")
    assert [gone.tag.name for gone in made.deleted] == ["20240101 02", "20240101 04"]
    left = store.tags.list()
    assert [tag.name for tag in left] == ["20240101 06", "20240101 08", "by hand"]
    assert left[0].time_retained == 30 * DAY


def test_manifests_are_folded_by_one_commit(store):
    for name in "abc":
        commit(store, message(plain_file(name)))
    commit(store, message(deleted=[plain_file("b")]), kind=CommitKind.OVERWRITE)
    planned = compact_manifests(store, commit_user="x", dry_run=True)
    assert (planned.snapshot, planned.before, planned.after) == (None, 4, 1)
    done = compact_manifests(store, commit_user="x")
    assert (done.before, done.after) == (4, 1)
    assert done.snapshot.commit_kind is CommitKind.COMPACT
    assert live_names(store) == ["a", "c"]
    for dry_run in (True, False):
        again = compact_manifests(store, commit_user="y", dry_run=dry_run)
        assert (again.snapshot, again.before, again.after) == (None, 1, 1)


NEWEST = Retention(min_count=1, max_count=1, time_ms=0, limit=100)
HOUR = 3_600_000
LATER = FixedClock(now=4_000_000_000_000)


def add(store, *names, **more):
    """Commit data files that exist, one byte each."""
    files = [plain_file(name) for name in names]
    for name in names:
        LocalFileIO().write_bytes(f"{store.table_path}/bucket-0/{name}", b"x")
    return commit(store, message(*files), **more)


def drop(store, *names):
    files = [plain_file(name) for name in names]
    return commit(store, message(deleted=files), kind=CommitKind.OVERWRITE)


def stored_names(store):
    return {status.name for status in LocalFileIO().list_directory(f"{store.table_path}/bucket-0")}


def test_deleted_file_expires_with_last_snapshot_that_has_it(store):
    add(store, "a", "b")
    drop(store, "a")
    add(store, "c")
    kept_two = expire_snapshots(store, retention=replace(NEWEST, min_count=3, max_count=3))
    assert (kept_two.snapshot_ids, stored_names(store)) == ((), {"a", "b", "c"})
    done = expire_snapshots(store, retention=replace(NEWEST, min_count=2, max_count=2))
    assert (done.snapshot_ids, done.data_files, done.data_bytes) == ((1,), 1, 1000)
    assert stored_names(store) == {"b", "c"}
    assert store.snapshots.list_ids() == [2, 3]
    assert store.snapshots.earliest_id() == 2
    assert referenced_manifests(store) == manifest_files(store)


def test_dry_run_reports_same_and_deletes_nothing(store):
    add(store, "a")
    drop(store, "a")
    planned = expire_snapshots(store, retention=NEWEST, dry_run=True)
    assert stored_names(store) == {"a"}
    assert store.snapshots.list_ids() == [1, 2]
    assert expire_snapshots(store, retention=NEWEST) == planned
    assert stored_names(store) == set()


def test_file_with_changed_level_is_kept(keyed):
    file = keyed_file(1, 2, file_name="a")
    commit(keyed, message(file, total_buckets=2))
    LocalFileIO().write_bytes(f"{keyed.table_path}/bucket-0/a", b"x")
    moved = CompactIncrement(compact_before=(file,), compact_after=(file._replace(level=5),))
    up = CommitMessage(
        partition=message().partition, bucket=0, total_buckets=2, compact_increment=moved
    )
    commit(keyed, up, kind=CommitKind.COMPACT)
    assert expire_snapshots(keyed, retention=NEWEST).data_files == 0
    assert stored_names(keyed) == {"a"}


@pytest.mark.parametrize("ahead", [(3,), (3, 4, 5), (9,)], ids=str)
def test_future_snapshot_time_holds_no_snapshots(store, ahead):
    """A snapshot is older than its successors, whatever its clock."""
    year = 365 * 24 * HOUR
    for number in range(1, 10):
        now = number * HOUR + (year if number in ahead else 0)
        FileStoreCommit(store, clock=FixedClock(now=now)).commit(
            [message(plain_file(f"f{number}"))], commit_user=str(number), commit_identifier=1
        )
    keep = Retention(min_count=1, max_count=99, time_ms=HOUR, limit=99)
    young = expire_snapshots(store, retention=keep, clock=FixedClock(now=8 * HOUR), dry_run=True)
    assert young.snapshot_ids == (1, 2, 3, 4, 5)
    now = FixedClock(now=20 * HOUR)
    gone = expire_snapshots(store, retention=keep, clock=now, dry_run=True)
    assert gone.snapshot_ids == tuple(range(1, 8 if 9 in ahead else 9))
    slow = expire_snapshots(store, retention=keep, clock=FixedClock(now=-HOUR), dry_run=True)
    assert slow.snapshot_ids == ()


def test_times_of_wrong_clock_are_read_once():
    asked = []

    def time_of(number):
        asked.append(number)
        return 10**9 if number < 90 else number

    keep = Retention(min_count=1, max_count=99, time_ms=10, limit=50)
    assert keep.first_retained(1, 99, now_ms=200, time_of=time_of) == 51
    assert asked == [*range(2, 91)]


def test_options_say_how_long_snapshots_are_kept(store):
    for name in "abcd":
        add(store, name)
    made = store.snapshots.snapshot(1).time_millis
    keep = Retention(min_count=1, max_count=99, time_ms=HOUR, limit=2)
    young = expire_snapshots(store, retention=keep, clock=FixedClock(now=made + HOUR))
    assert young.snapshot_ids == ()
    old = FixedClock(now=made + HOUR + 1)
    assert expire_snapshots(store, retention=keep, clock=old).snapshot_ids == (1, 2)
    assert expire_snapshots(store, clock=old).snapshot_ids == ()  # ten stay by default
    defaults = Retention.of_snapshots(Options({}))
    assert defaults == Retention(min_count=10, max_count=2**31 - 1, time_ms=HOUR, limit=50)


def test_retention_of_nothing_is_refused():
    with pytest.raises(InvalidInputError, match="at least 0"):
        replace(NEWEST, min_count=0)
    with pytest.raises(InvalidInputError, match=r"snapshot\.num-retained\.max"):
        Retention.of_snapshots(Options({"snapshot.num-retained.max": "3"}))


def test_consumer_holds_snapshots_it_has_not_read(store):
    for name in "abcd":
        add(store, name)
    store.consumers.reset("reader", 3)
    done = expire_snapshots(store, retention=NEWEST)
    assert (done.snapshot_ids, done.held_by) == ((1,), "consumer 'reader'")  # at 2, for differences


LANDING = f"{LEDGER_PROPERTY_PREFIX}landing"


def pointers(store):
    listed = store.file_io.list_directory(store.paths.pointer_directory)
    return [status.path for status in listed if status.name.startswith("pointer-")]


def ingest(store, name, ledger):
    store.file_io.write_bytes(store.paths.ledger(ledger), b'{"source": "landing"}')
    return add(store, name, properties={LANDING: ledger})


def add_foreign(store, names):
    """Commit files without properties, as other engines do."""
    for name in names:
        made = replace(add(store, name), properties={})
        LocalFileIO().replace(store.paths.snapshot(made.id), snapshot_to_json(made))


def test_quiet_source_holds_no_snapshot(store):
    ingest(store, "a", "ledger-1.json")
    ingest(store, "b", "ledger-2.json")
    for number in range(21):
        add(store, f"c{number}")
    drop(store, "a")
    assert store.snapshots.snapshot(24).properties[LANDING] == "ledger-2.json"
    done = expire_snapshots(store, retention=NEWEST)
    assert (len(done.snapshot_ids), done.held_by) == (23, "")
    assert store.snapshots.list_ids() == [24]


def test_ledger_expires_with_its_last_snapshot(store):
    kept = {1: ["ledger-a.parquet"], 2: ["ledger-a.parquet", "ledger-b.parquet"]}
    for number, parts in {**kept, 3: ["ledger-b.parquet"], 4: ["ledger-c.parquet"]}.items():
        members = {"source": "landing", "parts": [[part] for part in parts]}
        path = store.paths.ledger(f"ledger-{number}.json")
        store.file_io.write_bytes(path, json.dumps(members).encode())
        for part in parts:
            store.file_io.replace(store.paths.ledger(part), b"rows")
        add(store, f"f{number}", properties={LANDING: f"ledger-{number}.json"})

    def ledgers_left():
        listed = store.file_io.list_directory(store.paths.ledger_directory)
        return [s.name.partition(".")[0][-1] for s in listed if s.name.startswith("ledger-")]

    assert ledgers_left() == ["1", "2", "3", "4", "a", "b", "c"]
    store.tags.create("kept", store.snapshots.snapshot(3))
    expire_snapshots(store, retention=NEWEST, dry_run=True)
    done = expire_snapshots(store, retention=NEWEST)
    assert ledgers_left() == ["3", "4", "b", "c"]
    assert done.metadata_files >= 3
    tag_files.delete_tag(store, "kept")
    assert ledgers_left() == ["4", "c"]
    assert clean_orphan_files(store, clock=LATER).files == ()


@pytest.mark.parametrize("pointer_was_written", [True, False])
def test_pointer_names_ledger_after_foreign_commits(store, pointer_was_written):
    ingest(store, "a", "ledger-1.json")
    ingest(store, "b", "ledger-2.json")
    if not pointer_was_written:  # the commits were killed before
        for path in pointers(store):
            LocalFileIO().delete_file(path)
    add_foreign(store, "cd")
    assert expire_snapshots(store, retention=NEWEST).snapshot_ids == (1, 2, 3)
    assert pointed_ledger(store, LANDING) == "ledger-2.json"
    assert not store.file_io.exists(store.paths.ledger("ledger-1.json"))
    assert clean_orphan_files(store, clock=LATER).files == ()
    store.file_io.delete_file(store.paths.ledger("ledger-2.json"))
    assert pointed_ledger(store, LANDING) is None


def test_slow_writer_keeps_pointer_to_later_ledger(store):
    """The later one's snapshots expire before the slow writer writes its hint, then its pointer."""
    ingest(store, "a", "ledger-1.json")

    def before(_number, method, path):
        if method == "write_hint" and not commits:
            commits.append(path)
            ingest(store, "c", "ledger-3.json")
            add_foreign(store, "de")
            expire_snapshots(store, retention=NEWEST)

    commits = []
    slow = replace(store, file_io=FaultyFileIO(store.file_io, before=before))
    ingest(slow, "b", "ledger-2.json")
    assert commits
    assert pointed_ledger(store, LANDING) == "ledger-3.json"


def test_later_ledger_pointer_wins_in_any_order(tmp_path):
    """One writer is slow before any call after its commit; an old name counts until then."""
    for stop in itertools.count():
        store, calls = new_store(tmp_path / str(stop)), []
        ingest(store, "a", "ledger-1.json")
        [pointer] = pointers(store)
        old = f"{pointer.removesuffix('-1.json')}.json"
        store.file_io.write_bytes(old, store.file_io.read_bytes(pointer))
        store.file_io.delete_file(pointer)
        assert pointed_ledger(store, LANDING) == "ledger-1.json"

        def before(_number, method, path, store=store, stop=stop, calls=calls):
            if calls or (method == "publish" and "/snapshot/" in path):
                calls.append(method)
            if len(calls) == stop + 2:
                ingest(store, "c", "ledger-3.json")

        ingest(
            replace(store, file_io=FaultyFileIO(store.file_io, before=before)), "b", "ledger-2.json"
        )
        if len(calls) < stop + 2:
            break
        assert pointed_ledger(store, LANDING) == "ledger-3.json"
        assert len(pointers(store)) == 3
        add_foreign(store, "de")
        expire_snapshots(store, retention=NEWEST)
        assert pointed_ledger(store, LANDING) == "ledger-3.json"
        assert len(pointers(store)) == 1
        assert clean_orphan_files(store, clock=LATER).files == ()
    assert stop > 2


def test_rollback_undoes_pointers_to_ledgers(store):
    add(store, "a")
    ingest(store, "b", "ledger-1.json")
    assert pointed_ledger(store, LANDING) == "ledger-1.json"
    rollback_to_snapshot(store, 1)
    assert pointed_ledger(store, LANDING) is None
    add(store, "c")
    assert pointed_ledger(store, LANDING) is None


def test_tag_keeps_its_files_until_it_is_deleted(store):
    store.tags.create("first", add(store, "a", "b"))
    store.tags.create("second", add(store, "c"))
    drop(store, "a", "b", "c")
    expire_snapshots(store, retention=NEWEST)
    assert stored_names(store) == {"a", "b", "c"}
    assert tag_files.delete_tag(store, "second", dry_run=True).data_files == 1
    assert tag_files.delete_tag(store, "second").data_files == 1
    assert stored_names(store) == {"a", "b"}
    assert tag_files.delete_tag(store, "first").data_files == 2
    assert stored_names(store) == set()
    assert referenced_manifests(store) == manifest_files(store)
    with pytest.raises(NotFoundError):
        tag_files.delete_tag(store, "first")


def test_tags_expire_after_their_retention(store):
    made = add(store, "a")
    store.tags.create("short", made, time_retained=dt.timedelta(hours=1))
    store.tags.create("long", made, time_retained=dt.timedelta(days=300_000))
    store.tags.create("ever", made)
    assert [gone.tag.name for gone in tag_files.expire_tags(store, clock=LATER)] == ["short"]
    assert [tag.name for tag in store.tags.list()] == ["ever", "long"]


def test_changelog_outlives_its_snapshot(tmp_path):
    schema = Schema.of({"a": "BIGINT"}, options={"changelog.num-retained.min": "20"})
    store = new_store(tmp_path, schema)
    add(store, "a")
    drop(store, "a")
    assert expire_snapshots(store, retention=replace(NEWEST, max_count=1)).data_files == 0
    assert store.changelogs.list_ids() == [1]
    assert stored_names(store) == {"a"}
    latest = f"{store.paths.changelog_directory}/LATEST"
    assert LocalFileIO().read_bytes(latest) == b"1"
    assert clean_orphan_files(store, older_than_ms=0, clock=LATER).files == ()


def test_expiration_survives_failure_at_any_call(tmp_path):
    """Its snapshots are whole after any failed call; the next expiration completes it."""
    for call in itertools.count():
        store = new_store(tmp_path / str(call))
        add(store, "a", "b")
        drop(store, "a")
        store.tags.create("kept", store.snapshots.snapshot(2))
        add(store, "c")
        drop(store, "b")
        add(store, "d")
        faulty = FaultyFileIO(LocalFileIO(), faults={call: Fault.FAIL})
        try:
            expire_snapshots(FileStore.open(faulty, store.table_path), retention=NEWEST)
        except StorageError:
            for number in store.snapshots.list_ids():
                assert _live(store, store.snapshots.snapshot(number)) <= stored_names(store)
        assert expire_snapshots(store, retention=NEWEST).held_by == ""
        assert store.snapshots.list_ids() == [5]
        assert {"b", "c", "d"} <= stored_names(store)
        clean_orphan_files(store, older_than_ms=0, dry_run=False, clock=LATER)
        assert referenced_manifests(store) | _tagged_manifests(store) == manifest_files(store)
        if not faulty.fired:
            break
    assert call > 20
    assert stored_names(store) == {"b", "c", "d"}


def _live(store, snapshot):
    entries = store.manifests.read_all(store.manifests.manifests_of(snapshot))
    names = {}
    for entry in entries:
        names[entry.file.file_name] = entry.kind
    return {name for name, kind in names.items() if kind == 0}


def _tagged_manifests(store):
    names = set()
    for tag in store.tags.list():
        snapshot = tag.snapshot
        names |= {snapshot.base_manifest_list, snapshot.delta_manifest_list}
        names |= {meta.file_name for meta in store.manifests.manifests_of(snapshot)}
    return names


def test_orphans_are_old_unnamed_files(store):
    add(store, "a")
    io = LocalFileIO()
    for name in (
        f"bucket-0/{ORPHAN}",
        f"manifest/{ORPHAN.replace('data', 'manifest').removesuffix('.parquet')}",
        f"statistics/{ORPHAN.replace('data', 'stat').removesuffix('.parquet')}",
        "snapshot/.snapshot-9.0123456789abcdef0123456789abcdef.tmp",
        ".staging-0123/_temporary/0/part-00000.parquet",
    ):
        io.write_bytes(f"{store.table_path}/{name}", b"1234")
    for name in ("notes.txt", "mine/bucket-0/x", "snapshot/README", "segments/.x.tmp"):
        io.write_bytes(f"{store.table_path}/{name}", b"1234")
    assert clean_orphan_files(store).files == ()
    listed = clean_orphan_files(store, clock=LATER)
    assert len(listed.files) == 5
    assert listed.total_bytes == 20
    assert clean_orphan_files(store, dry_run=False, clock=LATER).files == listed.files
    assert clean_orphan_files(store, clock=LATER).files == ()
    assert stored_names(store) == {"a"}
    assert clean_orphan_files(store, dry_run=False, older_than_ms=0, clock=LATER).files == ()
    assert not io.exists(f"{store.table_path}/.staging-0123")
    for name in ("notes.txt", "mine/bucket-0/x", "snapshot/README", "segments/.x.tmp"):
        assert io.exists(f"{store.table_path}/{name}")


def test_ledger_is_orphan_only_if_replaced(store):
    names = [f"ledger-{uuid4()}.json" for _ in range(3)]
    for name, source in zip(names, ("landing", "landing", "expired"), strict=True):
        data = json.dumps({"source": source}).encode()
        store.file_io.write_bytes(store.paths.ledger(name), data)
    add(store, "a", properties={f"{LEDGER_PROPERTY_PREFIX}landing": names[1]})
    found = clean_orphan_files(store, clock=LATER)
    assert [status.name for status in found.files] == [names[0]]


def test_snapshot_without_its_manifests_stops_cleaning(store):
    damaged = add(store, "a")
    LocalFileIO().write_bytes(f"{store.table_path}/bucket-0/{ORPHAN}", b"1234")
    store.manifests.delete(damaged.delta_manifest_list)
    with pytest.raises(NotFoundError, match=damaged.delta_manifest_list):
        clean_orphan_files(store, dry_run=False, clock=LATER)
    assert stored_names(store) == {"a", ORPHAN}


def test_changelog_expires_later_with_its_own_files(tmp_path):
    schema = Schema.of({"a": "BIGINT"}, options={"changelog.num-retained.min": "20"})
    store = new_store(tmp_path, schema)
    add(store, "a")
    drop(store, "a")
    for name in "bcd":
        add(store, name)
    drop(store, "c")
    expire_snapshots(store, retention=NEWEST)
    assert store.changelogs.list_ids() == [1, 2, 3, 4, 5]
    assert expire_changelogs(store).snapshot_ids == ()
    done = expire_changelogs(store, retention=replace(NEWEST, min_count=2, max_count=2))
    assert (done.snapshot_ids, done.data_files) == ((1, 2, 3, 4), 2)
    assert stored_names(store) == {"b", "d"}
    assert store.changelogs.list_ids() == [5]
    assert clean_orphan_files(store, clock=LATER).files == ()


def test_empty_partition_directories_are_deleted(tmp_path):
    columns = {"day": "DATE", "hour": "INT", "n": "INT"}
    store = new_store(tmp_path, Schema.of(columns, partition_keys=["day", "hour"]))
    types = [field.type for field in store.partitions.fields]
    parts = [serialize_row(values, types) for values in ((1, 1), (1, 2), (2, 1))]
    for number, part in enumerate(parts):
        file = plain_file(f"f{number}")
        path = f"{store.bucket_path(part, 0)}/{file.file_name}"
        LocalFileIO().write_bytes(path, b"x")
        commit(store, message(file, partition=part))

    def delete_file(number):
        file = plain_file(f"f{number}")
        commit(store, message(deleted=[file], partition=parts[number]), kind=CommitKind.OVERWRITE)

    def directories():
        found = (path for path in tmp_path.rglob("*=*") if path.is_dir())
        return sorted(str(path).partition("day=")[2] for path in found)

    delete_file(0)
    expire_snapshots(store, retention=NEWEST)
    assert directories() == ["1", "1/hour=2", "2", "2/hour=1"]
    delete_file(1)
    expire_snapshots(store, retention=NEWEST)
    assert directories() == ["2", "2/hour=1"]
    LocalFileIO().make_directory(f"{store.table_path}/day=3/hour=7/bucket-0")
    clean_orphan_files(store, dry_run=True, clock=LATER)
    assert directories()[-1] == "3/hour=7"
    clean_orphan_files(store, dry_run=False)
    assert directories()[-1] == "3/hour=7"  # a writer may just have made it
    clean_orphan_files(store, dry_run=False, clock=LATER)
    assert directories() == ["2", "2/hour=1"]
