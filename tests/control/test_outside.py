"""Nothing outside a table's directories is read or deleted, whatever names its metadata holds."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_assets.engine.codec.avro.manifest_avro import (
    read_index_manifest,
    read_manifest,
    read_manifest_list,
    write_index_manifest,
    write_manifest,
    write_manifest_list,
)
from paimon_assets.engine.codec.json.metadata_json import snapshot_from_json, snapshot_to_json
from paimon_assets.engine.codec.rows.data_file_row import file_from_row, file_to_row
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import delete_files
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.options.all_options import ALL_OPTIONS, Options
from tests.faults.test_races import add, drop, expire
from tests.testkit.builders import data_file, entry, snapshot
from tests.testkit.metadata_tables import (
    FixedClock,
    commit,
    message,
    new_store,
    plain_file,
    vectors_of,
)

LATER = FixedClock(now=4_000_000_000_000)
BAD_NAMES = ["../x", "a/b", "..", ".", "", "/etc/passwd", "a\0b"]
BAD_PATHS = ["/a/../b", "s3://b/../x", "../b", "file:/a/./b"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_in_metadata_is_one_part_of_a_path(tmp_path, name):
    file = entry(file=data_file(file_name=name))
    extra = entry(file=data_file(extra_files=("fine", name)))
    index = vectors_of(file_name=name)
    for damaged in (file, extra):
        with pytest.raises(FormatError, match="is not the name of a file"):
            read_manifest(write_manifest([damaged]), "manifest-1")
        with pytest.raises(FormatError, match="is not the name of a file"):
            file_from_row(file_to_row(damaged.file))
    with pytest.raises(FormatError, match="is not the name of a file"):
        read_index_manifest(write_index_manifest([index]), "index-manifest-1")
    store = new_store(tmp_path)
    commit(store, message(plain_file()))
    meta = store.manifests.manifests_of(store.snapshots.snapshot(1))[0]
    with pytest.raises(FormatError, match="is not the name of a file"):
        read_manifest_list(write_manifest_list([replace(meta, file_name=name)]), "manifest-list-1")
    for member in (
        "base_manifest_list",
        "delta_manifest_list",
        "changelog_manifest_list",
        "index_manifest",
        "statistics",
    ):
        data = snapshot_to_json(snapshot(**{member: name}))
        with pytest.raises(FormatError, match="is not the name of a file"):
            snapshot_from_json(data, "snapshot-1")


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_in_metadata_leads_nowhere_up(path):
    file = entry(file=data_file(external_path=path))
    with pytest.raises(FormatError, match="leads up"):
        read_manifest(write_manifest([file]), "manifest-1")
    with pytest.raises(FormatError, match="leads up"):
        file_from_row(file_to_row(file.file))
    index = vectors_of(external_path=path)
    with pytest.raises(FormatError, match="leads up"):
        read_index_manifest(write_index_manifest([index]), "index-manifest-1")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data-file.path-directory", "../victim"),
        ("data-file.path-directory", "a/../../out"),
        ("data-file.external-paths", "/data/../victim"),
        ("data-file.prefix", "../x-"),
        ("changelog-file.prefix", "a/b-"),
        ("branch", "../../victim"),
        ("scan.fallback-branch", "../x"),
        ("scan.primary-branch", ".."),
    ],
)
def test_an_option_names_no_place_outside(tmp_path, key, value):
    options = {option.key: option for option in ALL_OPTIONS}
    with pytest.raises(InvalidInputError, match=key):
        Options({key: value}).get(options[key])
    if key == "data-file.path-directory":
        store = new_store(tmp_path)
        (tmp_path / "victim" / "bucket-0").mkdir(parents=True)
        victim = tmp_path / "victim" / "bucket-0" / "data-1.parquet"
        victim.write_bytes(b"x")
        path = Path(store.paths.schema(0))
        members = json.loads(path.read_bytes())
        path.write_text(json.dumps({**members, "options": {key: value}}))
        with pytest.raises(InvalidInputError, match=key):
            clean_orphan_files(
                FileStore.open(LocalFileIO(), store.table_path), clock=LATER, dry_run=False
            )
        assert victim.exists()


def test_a_directory_below_the_table_may_be_written_with_slashes(tmp_path):
    options = {option.key: option for option in ALL_OPTIONS}
    option = options["data-file.path-directory"]
    assert Options({option.key: "/data/files/"}).get(option) == "data/files"


def test_nothing_is_deleted_that_lies_in_no_directory_of_the_table(store, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"x")
    for path in (str(victim), f"{store.table_path}/../victim", f"{store.table_path}-2/x"):
        with pytest.raises(FormatError, match="lies in none of the directories") as caught:
            delete_files(store, [path])
        assert caught.value.kind == "path-outside"
    assert victim.exists()


def test_a_bucket_that_is_a_link_is_not_followed_by_what_deletes(store, tmp_path):
    add(store, "a")
    add(store, "b")
    drop(store, "a")
    bucket = Path(store.table_path) / "bucket-0"
    bucket.rename(tmp_path / "elsewhere")
    bucket.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "orphan").write_bytes(b"x")
    os.utime(tmp_path / "elsewhere" / "orphan", (1, 1))
    expire(store)
    assert store.snapshots.list_ids() == [3]
    found = clean_orphan_files(store, clock=LATER, dry_run=False)
    assert not [status for status in found.files if "bucket-0" in status.path]
    assert {path.name for path in (tmp_path / "elsewhere").iterdir()} == {"a", "b", "orphan"}


def test_a_table_whose_own_directory_is_a_link_is_cleaned_as_any(store, tmp_path):
    add(store, "a")
    drop(store, "a")
    (tmp_path / "table").rename(tmp_path / "disk")
    (tmp_path / "table").symlink_to(tmp_path / "disk")
    expire(store)
    assert not (tmp_path / "disk" / "bucket-0" / "a").exists()
