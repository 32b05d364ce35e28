import pytest

from paimon_assets.engine.codec.avro import RecordSchema, write_container
from paimon_assets.engine.codec.metadata_json import snapshot_to_json
from paimon_assets.engine.control.features import check_readable, check_writable
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.schema import Schema, TableSchema, first_table_schema
from tests.control.tables import commit, message, new_store, newest, plain_file

KEY = {"columns": {"k": "INT", "v": "INT"}, "primary_keys": ["k"]}
PLAIN = {"columns": {"k": "INT", "v": "INT"}}


def _schema(declared, **options: str) -> TableSchema:
    schema = Schema.of(
        declared["columns"],
        primary_keys=declared.get("primary_keys", ()),
        options={"bucket": "1", **options} if "primary_keys" in declared else options,
    )
    return first_table_schema(schema, time_millis=0)


@pytest.mark.parametrize(
    ("declared", "options", "kind"),
    [
        (PLAIN, {"data-evolution.enabled": "true"}, "unsupported-data-evolution"),
        (PLAIN, {"type": "format-table"}, "unsupported-table-type"),
        (PLAIN, {"chain-table.enabled": "true"}, "unsupported-chain-table"),
        (PLAIN, {"query-auth.enabled": "true"}, "unsupported-query-auth"),
        (PLAIN, {"scan.fallback-branch": "old"}, "unsupported-branch"),
        (PLAIN, {"branch": "test"}, "unsupported-branch"),
        (
            PLAIN,
            {"fields.v.map.storage-layout": "shared-shredding"},
            "unsupported-map-layout",
        ),
        (KEY, {"merge-engine": "first-row"}, "unsupported-merge-engine-first-row"),
        (KEY, {"merge-engine": "partial-update"}, "unsupported-merge-engine-partial-update"),
        (KEY, {"deletion-vectors.enabled": "true"}, "unsupported-deletion-vectors"),
        (KEY, {"pk-clustering-override": "true"}, "unsupported-key-clustering"),
        ({"columns": {"b": "BLOB", "v": "INT"}}, {}, "unsupported-column-type"),
    ],
)
def test_what_would_be_read_wrongly_is_refused_by_name(declared, options, kind):
    with pytest.raises(UnsupportedFeatureError, match=r"Cannot read table 'db\.t'") as caught:
        check_readable("db.t", _schema(declared, **options))
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("declared", "options", "kind"),
    [
        (PLAIN, {"row-tracking.enabled": "true"}, "unsupported-row-tracking"),
        (PLAIN, {"deletion-vectors.enabled": "true"}, "unsupported-deletion-vectors"),
        (KEY, {"changelog-producer": "input"}, "unsupported-changelog-producer-input"),
        (KEY, {"bucket": "-1"}, "unsupported-bucket-mode-dynamic"),
        (KEY, {"bucket": "-2"}, "unsupported-bucket-mode-postpone"),
        (KEY, {"merge-engine": "first-row"}, "unsupported-merge-engine-first-row"),
    ],
)
def test_what_would_be_damaged_is_not_written(declared, options, kind):
    with pytest.raises(UnsupportedFeatureError) as caught:
        check_writable("db.t", _schema(declared, **options))
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("declared", "options"),
    [
        (PLAIN, {"row-tracking.enabled": "true"}),
        (PLAIN, {"deletion-vectors.enabled": "true"}),
        (PLAIN, {"fields.v.map.storage-layout": "default"}),
        (KEY, {"bucket": "-1"}),
        (KEY, {"bucket": "-2"}),
        (KEY, {"changelog-producer": "input"}),
    ],
)
def test_what_only_a_writer_must_care_for_is_read(declared, options):
    check_readable("db.t", _schema(declared, **options))


_INDEX = RecordSchema.of(
    b'{"type":"record","name":"record","fields":[{"name":"_VERSION","type":"int"},'
    b'{"name":"_INDEX_TYPE","type":"string"}]}'
)


def _with_index(tmp_path, index_type: str):
    """Return a table whose newest snapshot names an index manifest."""
    store = new_store(tmp_path)
    made = commit(store, message(plain_file()))
    data = write_container(_INDEX, [{"_VERSION": 1, "_INDEX_TYPE": index_type}])
    LocalFileIO().write_bytes(store.paths.manifest("index-manifest-1"), data)
    text = snapshot_to_json(made).replace(b'"id":1', b'"indexManifest":"index-manifest-1","id":1')
    LocalFileIO().replace(store.paths.snapshot(1), text)
    return store


def test_a_snapshot_with_deletion_vectors_is_refused_whatever_the_options_say(tmp_path):
    store = _with_index(tmp_path, "DELETION_VECTORS")
    with pytest.raises(UnsupportedFeatureError, match="snapshot 1 has deletion vectors"):
        FileStoreScan(store).needed_files(newest(store))


def test_a_hash_index_does_not_matter_to_readers_and_is_carried_by_commits(tmp_path):
    store = _with_index(tmp_path, "HASH")
    assert len(FileStoreScan(store).needed_files(newest(store))) == 1
    assert commit(store, message(plain_file())).index_manifest == "index-manifest-1"


@pytest.mark.parametrize(
    "change", [{"write_cols": ("a",), "first_row_id": 0}], ids=["data evolution"]
)
def test_a_file_with_some_of_the_columns_is_refused(tmp_path, change):
    store = new_store(tmp_path)
    commit(store, message(plain_file("partial", **change)))
    with pytest.raises(UnsupportedFeatureError, match="partial"):
        FileStoreScan(store).needed_files(newest(store))
