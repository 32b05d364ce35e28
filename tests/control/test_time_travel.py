import pytest

from paimon_assets.engine.codec.json.metadata_json import schema_to_json, snapshot_to_json
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.time_travel import schema_at, travel_to
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from tests.testkit.metadata_tables import FixedClock, message, new_store, plain_file


@pytest.fixture
def store(tmp_path):
    store = new_store(tmp_path)
    for second in (10, 20, 30):
        FileStoreCommit(store, clock=FixedClock(now=second * 1000)).commit(
            [message(plain_file())], commit_user=f"u{second}", commit_identifier=1
        )
    return store


def test_travels_by_id_and_by_time(store):
    assert travel_to(store, snapshot_id=2).id == 2
    assert travel_to(store, timestamp_ms=20_000).id == 2
    assert travel_to(store, timestamp_ms=29_999).id == 2
    assert travel_to(store, timestamp_ms=99_999).id == 3


def test_a_time_before_the_first_snapshot_tells_when_that_was(store):
    with pytest.raises(NotFoundError, match="oldest snapshot, 1, is of 10000"):
        travel_to(store, timestamp_ms=9_999)


def test_a_tag_outlives_its_snapshot(store):
    tagged = store.snapshots.snapshot(1)
    text = snapshot_to_json(tagged)[:-1] + b',"tagCreateTime":[2024,1,1,0,0,0,0]}'
    LocalFileIO().write_bytes(store.paths.tag("v1"), text)
    LocalFileIO().delete_file(store.paths.snapshot(1))
    assert travel_to(store, tag="v1").delta_manifest_list == tagged.delta_manifest_list
    with pytest.raises(NotFoundError, match="no tag 'v2'"):
        travel_to(store, tag="v2")
    with pytest.raises(InvalidInputError, match="tag"):
        travel_to(store, tag="../x")


def test_exactly_one_way_is_chosen(store):
    for ways in ({}, {"snapshot_id": 1, "tag": "v1"}, {"snapshot_id": 1, "timestamp_ms": 0}):
        with pytest.raises(InvalidInputError, match="exactly one"):
            travel_to(store, **ways)


def test_the_past_is_read_with_its_own_schema_and_today_s_dynamic_options(store):
    newer = Schema.of({"a": "BIGINT", "b": "STRING", "c": "INT"})
    data = schema_to_json(first_table_schema(newer, time_millis=2))
    LocalFileIO().write_bytes(store.paths.schema(1), data.replace(b'"id":0', b'"id":1', 1))
    opened = FileStore.open(LocalFileIO(), store.table_path, options={"read.batch-size": "7"})
    assert opened.schema.field_names == ("a", "b", "c")
    past = schema_at(opened, travel_to(opened, snapshot_id=1))
    assert past.field_names == ("a", "b")
    assert past.options["read.batch-size"] == "7"
