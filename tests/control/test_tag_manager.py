import datetime as dt
import json

import pytest

from paimon_assets.engine.codec.json.metadata_json import snapshot_to_json, tag_from_json
from paimon_assets.engine.control.maintenance.expire_snapshots import expire_snapshots
from paimon_assets.engine.control.maintenance.expiry_plan import Retention
from paimon_assets.engine.control.managers.tag_manager import TagManager
from paimon_assets.engine.control.rollback import rollback_to_snapshot
from paimon_assets.engine.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    NotFoundError,
)
from paimon_assets.engine.fileio.local import LocalFileIO
from tests.testkit.metadata_tables import FixedClock, commit, message, new_store, plain_file


@pytest.fixture
def store(tmp_path):
    made = new_store(tmp_path)
    for _ in range(3):
        commit(made, message(plain_file()))
    return made


@pytest.fixture
def tags(store):
    return TagManager(store.file_io, store.paths, clock=FixedClock())


def test_a_tag_is_the_snapshot_s_own_json(store, tags):
    tags.create("v1", store.snapshots.snapshot(1))
    snapshot = LocalFileIO().read_bytes(store.paths.snapshot(1))
    assert LocalFileIO().read_bytes(store.paths.tag("v1")) == snapshot
    assert tags.get("v1").snapshot == store.snapshots.snapshot(1)


def test_a_tag_that_expires_tells_when_it_was_made(store, tags):
    kept = dt.timedelta(days=1, hours=12, milliseconds=5)
    made = tags.create("v2", store.snapshots.snapshot(2), time_retained=kept)
    members = json.loads(LocalFileIO().read_bytes(store.paths.tag("v2")))
    at = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC).astimezone()
    assert members["tagCreateTime"] == [at.year, at.month, at.day, at.hour, at.minute, at.second, 0]
    assert members["tagTimeRetained"] == 129600.005
    assert tags.get("v2") == made
    assert made.time_retained == kept


def test_java_leaves_out_seconds_that_are_zero(store):
    data = LocalFileIO().read_bytes(store.paths.snapshot(1))[:-1]
    text = data + b',"tagCreateTime":[2024,1,31,12,5],"tagTimeRetained":129600.005000000}'
    tag = tag_from_json("t", text, "tag-t")
    assert tag.create_time == dt.datetime(2024, 1, 31, 12, 5)
    assert tag.time_retained == dt.timedelta(hours=36, milliseconds=5)
    for damage in (b'"tagCreateTime":[2024]', b'"tagTimeRetained":"x"', b'"tagCreateTime":"?"'):
        with pytest.raises(FormatError, match="tag-t: the tag's times are damaged"):
            tag_from_json("t", data + b"," + damage + b"}", "tag-t")


def test_a_name_is_given_once_unless_asked(store, tags):
    first, second = store.snapshots.snapshot(1), store.snapshots.snapshot(2)
    tags.create("v", first)
    with pytest.raises(AlreadyExistsError, match="tag 'v' already"):
        tags.create("v", second)
    assert tags.create("v", second, ignore_if_exists=True).snapshot == first
    assert tags.replace("v", second).snapshot == second
    with pytest.raises(NotFoundError, match="no tag 'w'"):
        tags.replace("w", second)


def test_tags_are_listed_renamed_and_deleted(store, tags):
    for number in (1, 2):
        tags.create(f"v{number}", store.snapshots.snapshot(number))
    tags.rename("v1", "first")
    assert [tag.name for tag in tags.list()] == ["first", "v2"]
    with pytest.raises(AlreadyExistsError):
        tags.rename("first", "v2")
    with pytest.raises(NotFoundError):
        tags.rename("v1", "other")
    assert tags.delete("first").snapshot.id == 1

    with pytest.raises(NotFoundError):
        tags.delete("first")
    assert [tag.name for tag in tags.list()] == ["v2"]


def test_a_tag_of_another_engine_s_rules_is_listed_and_breaks_nothing(store, tags):
    tags.create("v1", store.snapshots.snapshot(1))
    others = tags.list()[0].snapshot
    for name in ("a$b", " blank", "zwei\n"):
        LocalFileIO().write_bytes(store.paths.tag(name), snapshot_to_json(others))
    assert {tag.name for tag in tags.list()} == {"a$b", " blank", "zwei\n", "v1"}
    assert tags.get("a$b").snapshot == others
    LocalFileIO().make_directory(store.paths.of_branch("b$c").schema_directory)
    LocalFileIO().write_bytes(
        store.paths.of_branch("b$c").schema(0), LocalFileIO().read_bytes(store.paths.schema(0))
    )
    expire_snapshots(store, retention=Retention(min_count=1, max_count=1, time_ms=0, limit=9))
    assert store.snapshots.list_ids() == [3]
    assert set(rollback_to_snapshot(store, 3).tags) == set()
    tags.delete("a$b")
    assert "a$b" not in {tag.name for tag in tags.list()}
    with pytest.raises(InvalidInputError, match="no name of a tag"):
        tags.get("../x")


@pytest.mark.parametrize("name", ["", " x", "a/b", "a\\b", "a$b", "a\nb"])
def test_a_name_is_one_part_of_a_path(store, tags, name):
    with pytest.raises(InvalidInputError, match="no name of a tag"):
        tags.create(name, store.snapshots.snapshot(1))


def test_a_tag_is_kept_for_some_time(store, tags):
    with pytest.raises(InvalidInputError, match="above zero"):
        tags.create("v", store.snapshots.snapshot(1), time_retained=dt.timedelta())
