"""An overwrite takes what is live when it succeeds, of exactly the partitions it was given."""

import pytest

from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.contract.commit_message import CommitMessage, DataIncrement
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.commit.partition_filter import PartitionFilter, bound_spec
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import CommitConflictError, InvalidInputError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.metadata.manifest import FileKind
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.predicate.predicate import equal
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import bigint, string
from tests.testkit.faulty_fileio import FaultyFileIO
from tests.testkit.metadata_tables import (
    FixedClock,
    commit,
    keyed_file,
    live_names,
    manifest_files,
    message,
    new_store,
    newest,
    plain_file,
    referenced_manifests,
    vectors_of,
    with_index,
)

DAILY = Schema.of({"dt": "STRING", "hh": "BIGINT", "a": "BIGINT"}, partition_keys=["dt", "hh"])
KEYED_DAILY = Schema.of(
    {"dt": "STRING", "hh": "BIGINT", "a": "BIGINT"},
    partition_keys=["dt", "hh"],
    primary_keys=["dt", "hh", "a"],
    options={"bucket": "2"},
)


def _part(day: str | None, hour: int | None = 0) -> bytes:
    return serialize_row([day, hour], [string(), bigint()])


def _overwrite(store: FileStore, *messages: CommitMessage, user: str = "me", **scope) -> Snapshot:
    return FileStoreCommit(store, clock=FixedClock()).overwrite(
        messages, commit_user=user, commit_identifier=1, **scope
    )


def _filled(tmp_path, schema: Schema = DAILY) -> FileStore:
    store = new_store(tmp_path, schema)
    for day, hour in (("x", 0), ("x", 1), ("y", 0), (None, 0), (None, None)):
        name = f"{day}-{hour}"
        file = keyed_file(0, 9, file_name=name) if schema is KEYED_DAILY else plain_file(name)
        total = 2 if schema is KEYED_DAILY else None
        commit(store, message(file, partition=_part(day, hour), total_buckets=total))
    return store


def test_the_whole_table_goes_and_comes(tmp_path):
    store = _filled(tmp_path)
    made = _overwrite(store, message(plain_file("new", row_count=3), partition=_part("z")))
    assert live_names(store) == ["new"]
    assert made.commit_kind is CommitKind.OVERWRITE
    assert (made.delta_record_count, made.total_record_count) == (3 - 50, 3)
    delta = store.manifests.read_list(made.delta_manifest_list)
    kinds = [entry.kind for meta in delta for entry in store.manifests.read(meta)]
    assert kinds == [FileKind.DELETE] * 5 + [FileKind.ADD]
    assert manifest_files(store) == referenced_manifests(store)


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({"dt": "x"}, ["y-0", "None-0", "None-None"]),
        ({"dt": "x", "hh": 1}, ["x-0", "y-0", "None-0", "None-None"]),
        ({"hh": "0"}, ["x-1", "None-None"]),
        ({"dt": None}, ["x-0", "x-1", "y-0"]),
        ({"dt": "__DEFAULT_PARTITION__", "hh": None}, ["x-0", "x-1", "y-0", "None-0"]),
        ({"dt": "nowhere"}, ["x-0", "x-1", "y-0", "None-0", "None-None"]),
        ({}, []),
    ],
)
def test_a_partition_spec_may_be_partial(tmp_path, spec, left):
    store = _filled(tmp_path)
    predicate = bound_spec(store.schema, spec, table="t")
    made = _overwrite(store, predicate=predicate)
    assert live_names(store) == left
    assert made.total_record_count == 10 * len(left)


def test_listed_partitions_go_and_no_others(tmp_path):
    store = _filled(tmp_path)
    _overwrite(store, partitions=frozenset({_part("x", 1), _part(None)}))
    assert live_names(store) == ["x-0", "y-0", "None-None"]
    _overwrite(store, partitions=frozenset(), user="nothing")
    assert live_names(store) == ["x-0", "y-0", "None-None"]


@pytest.mark.parametrize(
    ("spec", "kind", "named"),
    [({"a": 1}, "partition-spec", "'a'"), ({"hh": "noon"}, "literal", "'hh'")],
)
def test_a_spec_that_means_nothing_is_refused(tmp_path, spec, kind, named):
    store = new_store(tmp_path, DAILY)
    with pytest.raises(InvalidInputError, match=named) as caught:
        bound_spec(store.schema, spec, table="t")
    assert caught.value.kind == kind


def test_what_is_no_choice_of_partitions_is_refused(tmp_path):
    store = new_store(tmp_path, DAILY)
    with pytest.raises(InvalidInputError, match="not by 'a'"):
        PartitionFilter.where(store, equal("a", 1))
    with pytest.raises(InvalidInputError, match="not both"):
        _overwrite(store, partitions=frozenset(), predicate=equal("dt", "x"))


def test_files_of_other_partitions_are_refused(tmp_path):
    store = _filled(tmp_path)
    stray = message(plain_file("new"), partition=_part("y"))
    with pytest.raises(InvalidInputError, match="dt=y/hh=0") as caught:
        _overwrite(store, stray, predicate=equal("dt", "x"))
    assert caught.value.kind == "overwrite-partition"
    deleting = message(deleted=[plain_file("x-0")], partition=_part("x"))
    with pytest.raises(InvalidInputError, match="plans itself"):
        _overwrite(store, deleting)
    assert len(live_names(store)) == 5


def test_index_files_of_the_partitions_go_along(tmp_path):
    store = _filled(tmp_path)
    with_index(
        store,
        vectors_of(partition=_part("x"), file_name="vx"),
        vectors_of(partition=_part("y"), file_name="vy"),
    )
    made = _overwrite(store, partitions=frozenset({_part("x")}))
    assert made.index_manifest is not None
    assert [e.file.file_name for e in store.manifests.read_index(made.index_manifest)] == ["vy"]
    assert _overwrite(store, user="all").index_manifest is None


def test_a_partition_gets_another_bucket_count(tmp_path):
    store = _filled(tmp_path, KEYED_DAILY)
    new = message(keyed_file(0, 4), partition=_part("x"), total_buckets=8)
    with pytest.raises(CommitConflictError):
        commit(store, new)
    _overwrite(store, new, partitions=frozenset({_part("x")}))
    commit(store, message(keyed_file(0, 4), partition=_part("x"), total_buckets=8))
    with pytest.raises(CommitConflictError):
        commit(store, message(keyed_file(0, 4), partition=_part("x"), total_buckets=2))
    commit(store, message(keyed_file(0, 4), partition=_part("y"), total_buckets=2))
    mixed = [
        message(keyed_file(0, 4), partition=_part("x"), total_buckets=count) for count in (2, 4)
    ]
    with pytest.raises(CommitConflictError):
        _overwrite(store, *mixed, user="mixed")


def test_files_that_share_no_key_go_to_the_highest_level(keyed):
    apart = message(keyed_file(5, 9), keyed_file(0, 4), bucket=0, total_buckets=2)
    together = message(keyed_file(0, 5), keyed_file(5, 9), bucket=1, total_buckets=2)
    made = _overwrite(keyed, apart, together)
    (meta,) = keyed.manifests.read_list(made.delta_manifest_list)
    levels = [(entry.bucket, entry.file.level) for entry in keyed.manifests.read(meta)]
    assert levels == [(0, 5), (0, 5), (1, 0), (1, 0)]
    old = FileStore.open(LocalFileIO(), keyed.table_path, options={"overwrite-upgrade": "false"})
    made = _overwrite(old, message(keyed_file(0, 4), total_buckets=2), user="old")
    (meta,) = keyed.manifests.read_list(made.delta_manifest_list)
    assert [e.file.level for e in keyed.manifests.read(meta) if e.kind is FileKind.ADD] == [0]


def test_what_others_commit_meanwhile_goes_too(tmp_path):
    table = _filled(tmp_path)
    rivals = ["x", "y"]

    def rival(_number: int, method: str, _path: str) -> None:
        if method == "publish" and rivals:
            day = rivals.pop()
            other = FileStore.open(LocalFileIO(), table.table_path)
            commit(other, message(plain_file(f"late-{day}"), partition=_part(day, 1)))

    store = FileStore.open(FaultyFileIO(LocalFileIO(), before=rival), table.table_path)
    new = message(plain_file("new"), partition=_part("x"))
    made = _overwrite(store, new, predicate=equal("dt", "x"))
    assert made.id == 8
    assert live_names(table) == ["y-0", "None-0", "None-None", "late-y", "new"]
    assert made.total_record_count == 50
    assert manifest_files(table) == referenced_manifests(table)


def test_overwriting_twice_as_the_same_commit_happens_once(tmp_path):
    store = _filled(tmp_path)
    first = _overwrite(store, message(plain_file("new"), partition=_part("x")))
    commit(store, message(plain_file("later"), partition=_part("x")))
    assert _overwrite(store, message(plain_file("again"), partition=_part("x"))) == first
    assert live_names(store) == ["new", "later"]


def test_foreign_files_leave_the_table_but_not_the_storage(store, tmp_path):
    foreign = tmp_path / "elsewhere.parquet"
    foreign.touch()
    commit(store, message(plain_file("f", external_path=str(foreign)), plain_file("own")))
    _overwrite(store)
    assert live_names(store) == []
    assert foreign.exists()


def test_the_first_commit_may_be_an_overwrite(store):
    changelog = DataIncrement(
        new_files=(plain_file("a"),), changelog_files=(plain_file("dropped"),)
    )
    made = _overwrite(
        store, CommitMessage(partition=message().partition, bucket=0, total_buckets=None,
        data_increment=changelog),
    )  # fmt: skip
    assert (made.id, made.changelog_manifest_list, live_names(store)) == (1, None, ["a"])
    assert newest(store) == made


def test_only_manifests_of_the_partitions_are_read(tmp_path):
    table = _filled(tmp_path)
    file_io = FaultyFileIO(LocalFileIO())
    store = FileStore.open(file_io, table.table_path)
    latest = newest(store)
    scope = PartitionFilter.of(store, frozenset({_part("x", 1)}))
    metas = store.manifests.manifests_of(latest)
    assert [scope.may_hold(meta) for meta in metas] == [False, True, False, False, False]
    assert [entry.file.file_name for entry in scope.live_files(latest)] == ["x-1"]
