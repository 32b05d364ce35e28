"""What options ask for as time goes by: partitions that expire, tags by period, few manifests."""

import datetime as dt

import pytest

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.maintenance.compact_manifests import compact_manifests
from paimon_assets.engine.control.maintenance.expire_partitions import expire_partitions
from paimon_assets.engine.control.maintenance.tag_files import create_auto_tags
from paimon_assets.engine.control.partition_age import PartitionTime
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.options.option import Options
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.metadata_tables import (
    FixedClock,
    commit,
    live_names,
    message,
    new_store,
    plain_file,
)

DAY = dt.timedelta(days=1)


def millis(*parts):
    """Return the epoch milliseconds of a local time."""
    return int(dt.datetime(*parts).timestamp() * 1000)  # local on purpose


def partitioned(tmp_path, columns, options, *, rows):
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
def test_values_mean_a_time(options, spec, expected):
    assert PartitionTime(Options(options)).of(spec) == expected


@pytest.mark.parametrize("formatter", ["yyyy-MM-dd EEE", "yyyy-yyyy"])
def test_a_format_that_is_not_understood_is_refused(formatter):
    with pytest.raises(InvalidInputError, match=formatter) as refused:
        PartitionTime(Options({"partition.timestamp-formatter": formatter}))
    assert refused.value.kind == "partition-time"


def test_old_partitions_go_in_one_commit(tmp_path):
    days = ["2024-01-01", "2024-01-02", "2024-01-03", None, "someday"]
    options = {"partition.expiration-time": "7 d"}
    columns = {"dt": "STRING", "v": "INT"}
    store = partitioned(tmp_path, columns, options, rows=[[day] for day in days])
    clock = FixedClock(now=millis(2024, 1, 9, 12))
    told = expire_partitions(store, commit_user="a", clock=clock, dry_run=True)
    assert told.partitions == ("dt=2024-01-01", "dt=2024-01-02")
    assert live_names(store) == ["0", "1", "2", "3", "4"]
    done = expire_partitions(store, commit_user="a", clock=clock)
    assert (done.partitions, done.files) == (told.partitions, 2)
    assert done.snapshot.commit_kind is CommitKind.OVERWRITE
    assert live_names(store) == ["2", "3", "4"]
    assert expire_partitions(store, commit_user="b", clock=clock).snapshot is None


def test_dates_and_the_most_partitions_at_a_time(tmp_path):
    options = {"partition.expiration-time": "1 d", "partition.expiration-max-num": "1"}
    columns = {"day": "DATE", "v": "INT"}
    store = partitioned(tmp_path, columns, options, rows=[[19_724], [19_723]])
    done = expire_partitions(store, commit_user="a", clock=FixedClock(now=millis(2025, 1, 1)))
    assert (done.files, done.partitions) == (1, ("day=2024-01-01",))
    assert live_names(store) == ["0"]  # January 2nd


def test_the_newest_file_tells_the_age_if_asked(tmp_path):
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


def test_the_first_snapshot_after_a_day_is_tagged_with_it(tmp_path):
    options = {"tag.automatic-creation": "process-time", "tag.creation-delay": "1 h"}
    store = new_store(tmp_path, Schema.of({"a": "BIGINT"}, options=options))
    commit_at(store, 2024, 1, 1, 10)
    assert create_auto_tags(store, dry_run=True).created == ("2023-12-31",)
    assert create_auto_tags(store).created == ("2023-12-31",)
    commit_at(store, 2024, 1, 1, 20)
    commit_at(store, 2024, 1, 2, 0, 30)  # within the delay
    commit_at(store, 2024, 1, 2, 1)
    commit_at(store, 2024, 1, 5, 7)
    assert create_auto_tags(store).created == ("2024-01-01", "2024-01-04")
    assert [tag.snapshot.id for tag in store.tags.list()] == [1, 4, 5]
    assert create_auto_tags(store).created == ()


@pytest.mark.parametrize("completes", ["false", "true"])
@pytest.mark.parametrize("first", [True, False])
def test_a_clock_that_was_years_ahead_does_not_end_the_tags(tmp_path, completes, first):
    options = {
        "tag.automatic-creation": "process-time",
        "tag.automatic-completion": completes,
        "tag.num-retained-max": "3",
    }
    store = new_store(tmp_path, Schema.of({"a": "BIGINT"}, options=options))
    if not first:
        commit_at(store, 2024, 1, 1, 10)
        assert create_auto_tags(store).created == ("2023-12-31",)
    commit_at(store, 2034, 1, 1, 20)
    ahead = create_auto_tags(store).created
    assert ahead == (("2024-01-01",) if completes == "true" and not first else ("2033-12-31",))
    for day in range(2, 7):
        commit_at(store, 2024, 1, day, 1)
    made = create_auto_tags(store)
    assert made.created[-4:] == ("2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05")
    assert [tag.name for tag in store.tags.list()] == ["2024-01-03", "2024-01-04", "2024-01-05"]
    assert create_auto_tags(store).created == ()


def test_periods_without_a_snapshot_are_made_up_for(tmp_path):
    options = {
        "tag.automatic-creation": "process-time",
        "tag.creation-period": "hourly",
        "tag.period-formatter": "without_dashes_and_spaces",
        "tag.automatic-completion": "true",
    }
    store = new_store(tmp_path, Schema.of({"a": "BIGINT"}, options=options))
    for moment in ((1,), (5,), (5, 10), (5, 20), (5, 30), (5, 40)):
        commit_at(store, 2024, 1, 1, *moment)
    made = ("2024010100", "2024010101", "2024010102", "2024010103", "2024010104")
    assert create_auto_tags(store).created == made
    assert [tag.snapshot.id for tag in store.tags.list()] == [1, 2, 3, 4, 5]
    commit_at(store, 2024, 1, 1, 6)
    assert create_auto_tags(store).created == ("2024010105",)


def test_the_oldest_automatic_tags_go(tmp_path):
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
    made = create_auto_tags(store)
    assert made.created == ("20240101 02", "20240101 04", "20240101 06", "20240101 08")
    assert [gone.tag.name for gone in made.deleted] == ["20240101 02", "20240101 04"]
    left = store.tags.list()
    assert [tag.name for tag in left] == ["20240101 06", "20240101 08", "by hand"]
    assert left[0].time_retained == 30 * DAY


def test_manifests_are_folded_by_one_commit(store):
    for name in "abc":
        commit(store, message(plain_file(name)))
    commit(store, message(deleted=[plain_file("b")]), kind=CommitKind.OVERWRITE)
    assert compact_manifests(store, commit_user="x", dry_run=True).before == 4
    done = compact_manifests(store, commit_user="x")
    assert (done.before, done.after) == (4, 1)
    assert done.snapshot.commit_kind is CommitKind.COMPACT
    assert live_names(store) == ["a", "c"]
    assert compact_manifests(store, commit_user="y").snapshot is None
