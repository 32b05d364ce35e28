"""Partitions that main lacks come from the fallback branch."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_assets.engine.codec.json.metadata_json import schema_to_json
from paimon_assets.engine.codec.rows.binary_row import serialize_row
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.table_scan import scan_table
from paimon_assets.engine.errors import NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.predicate.predicate import bind, equal
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import bigint, string
from tests.testkit.metadata_tables import commit, message, new_store, plain_file

FALLBACK = {"scan.fallback-branch": "test"}
PARTITIONED = Schema.of({"p": "STRING", "x": "INT"}, partition_keys=["p"])
KEYED = Schema.of(
    {"p": "STRING", "x": "INT"},
    partition_keys=["p"],
    primary_keys=["p", "x"],
    options={"bucket": "1"},
)


def partition(text):
    return serialize_row([text], [string()])


def branched(tmp_path, schema=PARTITIONED):
    """Return an empty table, and another that `publish` makes its branch `test`."""
    return new_store(tmp_path / "main", schema), new_store(tmp_path / "branch", schema)


def publish(main, branch):
    """Copy what is the branch's own into its directory, and its manifests beside main's."""
    root, source = Path(main.table_path), Path(branch.table_path)
    own = root / "branch" / "branch-test"
    for name, target in (("schema", own), ("snapshot", own), ("manifest", root)):
        if (source / name).exists():
            shutil.copytree(source / name, target / name, dirs_exist_ok=True)
    return FileStore.open(main.file_io, main.table_path, options={"branch": "test"})


def reopened(store):
    return FileStore.open(store.file_io, store.table_path)


def add(store, name, text, **changes):
    return commit(store, message(plain_file(name, **changes), partition=partition(text)))


def alter(store, columns):
    """Publish a further schema of a branch, with these columns of (id, name, type)."""
    fields = tuple(
        replace(store.schema.fields[0], id=number, name=name, type=data_type)
        for number, name, data_type in columns
    )
    altered = replace(store.schema, id=store.schema.id + 1, fields=fields, options={})
    LocalFileIO().write_bytes(store.paths.schema(altered.id), schema_to_json(altered))


def scanned(main, branch, predicate=None, **more):
    publish(main, branch)
    seen = main.with_schema(main.schema.with_dynamic_options(FALLBACK))
    bound = None if predicate is None else bind(predicate, seen.schema)
    return scan_table(seen, seen.snapshots.latest(), bound, **more)


def names(scan):
    return sorted(file.file_name for split in scan.splits for file in split.data_files)


def test_a_branch_has_snapshots_of_its_own_and_shares_the_data(tmp_path):
    main, branch = branched(tmp_path)
    add(branch, "branch-1", "b")
    opened = publish(main, branch)
    assert opened.snapshots.list_ids() == [1]
    assert main.snapshots.list_ids() == []
    (split,) = scan_table(opened, opened.snapshots.latest(), None).splits
    assert split.bucket_path == f"{main.table_path}/p=b/bucket-0"


def test_partitions_that_main_lacks_come_from_the_fallback_branch(tmp_path):
    main, branch = branched(tmp_path)
    add(main, "main-a", "a")
    for text in ("a", "b"):
        add(branch, f"branch-{text}", text)
    assert names(scanned(main, branch)) == ["branch-b", "main-a"]
    assert names(scan_table(main, main.snapshots.latest(), None)) == ["main-a"]


def test_a_partition_that_main_has_stays_mains_even_where_a_filter_leaves_nothing_of_it(tmp_path):
    main, branch = branched(tmp_path)
    add(main, "main-a", "a")
    add(branch, "branch-a", "a")
    assert names(scanned(main, branch, equal("p", "a"))) == ["main-a"]
    assert names(scanned(main, branch, equal("p", "b"))) == []


def test_everything_comes_from_the_branch_while_main_has_no_snapshot(tmp_path):
    main, branch = branched(tmp_path)
    add(branch, "branch-a", "a")
    assert names(scanned(main, branch)) == ["branch-a"]


def test_a_branch_without_snapshots_adds_nothing(tmp_path):
    main, branch = branched(tmp_path)
    add(main, "main-a", "a")
    assert names(scanned(main, branch)) == ["main-a"]


def test_schemas_of_both_branches_are_told_apart(tmp_path):
    main, branch = branched(tmp_path)
    alter(branch, [(0, "p", string()), (1, "x", bigint())])
    add(main, "main-a", "a")
    add(reopened(branch), "branch-b", "b", schema_id=1)
    add(reopened(branch), "branch-c", "c", schema_id=0)
    scan = scanned(main, branch)
    schemas = {schema.id: schema for schema in scan.file_schemas}
    assert len(schemas) == len(scan.file_schemas)
    found = {
        file.file_name: str(schemas[file.schema_id].by_name["x"].type)
        for split in scan.splits
        for file in split.data_files
    }
    assert found == {"main-a": "INT", "branch-b": "BIGINT", "branch-c": "INT"}


def test_time_travel_reads_the_branch_as_it_was(tmp_path):
    main, branch = branched(tmp_path)
    made = add(branch, "branch-b", "b")
    assert names(scanned(main, branch, instant_ms=made.time_millis)) == ["branch-b"]
    assert names(scanned(main, branch, instant_ms=made.time_millis - 1)) == []


@pytest.mark.parametrize(
    ("columns", "difference"),
    [
        ([(0, "p", string()), (1, "y", bigint())], "another column 'x'"),
        ([(0, "p", string()), (2, "x", bigint())], "another column 'x'"),
        ([(0, "p", bigint()), (1, "x", bigint())], "the type BIGINT for column 'p'"),
    ],
)
def test_a_branch_with_other_columns_is_refused(tmp_path, columns, difference):
    main, branch = branched(tmp_path)
    alter(branch, columns)
    add(reopened(branch), "branch-b", "b")
    with pytest.raises(UnsupportedFeatureError, match=difference) as caught:
        scanned(main, branch)
    assert caught.value.kind == "unsupported-branch"


@pytest.mark.parametrize(
    ("declared", "changes", "difference"),
    [
        (KEYED, {"primary_keys": ()}, r"the primary key \(\)"),
        (PARTITIONED, {"partition_keys": ()}, "the partition keys"),
    ],
)
def test_a_branch_that_is_read_another_way_is_refused(tmp_path, declared, changes, difference):
    main, branch = branched(tmp_path, declared)
    add(branch, "branch-b", "b", level=5)
    other = replace(branch.schema, id=1, **{"options": {"bucket": "1"}, **changes})
    LocalFileIO().write_bytes(branch.paths.schema(1), schema_to_json(other))
    with pytest.raises(UnsupportedFeatureError, match=difference):
        scanned(main, branch)


def test_a_branch_that_does_not_exist_is_named(tmp_path):
    store = new_store(tmp_path, PARTITIONED)
    seen = store.with_schema(store.schema.with_dynamic_options(FALLBACK))
    with pytest.raises(NotFoundError, match="has no branch 'test'") as caught:
        scan_table(seen, None, None)
    assert caught.value.kind == "branch-not-found"
