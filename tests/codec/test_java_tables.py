"""Metadata of tables that Java Paimon 0.8 to 1.4 wrote; skipped where those tables are absent."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.avro import manifest_avro
from paimon_assets.engine.codec.avro.avro import MAGIC
from paimon_assets.engine.codec.hashing.bucket_function import bucket_numbers, bucket_of
from paimon_assets.engine.codec.json import metadata_json
from paimon_assets.engine.codec.rows.binary_row import deserialize_row, serialize_row
from paimon_assets.engine.spec.options.all_options import BUCKET
from paimon_assets.engine.spec.types.data_types import TIMESTAMP_ROOTS, TypeRoot
from tests.testkit.codec_strategies import check_damage

TABLES = Path(__file__).parents[3] / "shared" / "tables"
ROOTS = sorted(path.parent for path in TABLES.glob("**/schema") if "branch" not in path.parts)
UNBRANCHED = [root for root in ROOTS if not (root / "branch").exists()]
"""Tables whose manifests all follow the schemas of the main branch."""
pytestmark = pytest.mark.skipif(not ROOTS, reason="needs ../shared/tables, written by Java Paimon")


def cases_of(pattern):
    """Files of the pattern in every table, each as a test case."""
    paths = [path for path in sorted(TABLES.glob(f"**/{pattern}")) if path.is_file()]
    return [pytest.param(path, id=str(path.relative_to(TABLES))) for path in paths]


def manifests():
    """Manifests alone: neither manifest lists nor index manifests."""
    return [case for case in cases_of("manifest/manifest-*") if "manifest-list" not in str(case.id)]


def newest_schemas(root):
    """Schemas of a table by id."""
    paths = (root / "schema").glob("schema-*")
    schemas = [metadata_json.schema_from_json(path.read_bytes(), str(path)) for path in paths]
    return {schema.id: schema for schema in schemas}


@pytest.mark.parametrize("path", cases_of("snapshot/snapshot-*"))
def test_snapshots_keep_every_member(path):
    data = path.read_bytes()
    snapshot = metadata_json.snapshot_from_json(data, str(path))
    kept = {key: value for key, value in json.loads(data).items() if value is not None}
    assert json.loads(metadata_json.snapshot_to_json(snapshot)) == kept


@pytest.mark.parametrize("path", cases_of("schema/schema-*"))
def test_schemas_keep_every_member(path):
    data = path.read_bytes()
    schema = metadata_json.schema_from_json(data, str(path))
    original = json.loads(data)
    written = json.loads(metadata_json.schema_to_json(schema))
    assert {**original, "options": written["options"]} == written
    assert original["options"].items() <= written["options"].items()


@pytest.mark.parametrize("path", manifests())
def test_java_manifests_round_trip(path):
    entries = manifest_avro.read_manifest(path.read_bytes(), str(path))
    assert entries
    assert manifest_avro.read_manifest(manifest_avro.write_manifest(entries), str(path)) == entries


@pytest.mark.parametrize("path", cases_of("manifest/manifest-list-*"))
def test_java_manifest_lists_round_trip_with_file_sizes(path):
    metas = manifest_avro.read_manifest_list(path.read_bytes(), str(path))
    assert (
        manifest_avro.read_manifest_list(manifest_avro.write_manifest_list(metas), str(path))
        == metas
    )
    for meta in metas:
        manifest = path.with_name(meta.file_name)
        if manifest.exists():
            assert manifest.stat().st_size == meta.file_size


def test_schemas_equal_those_of_newer_java():
    def written_with(cases, schema):
        return sum(schema.text in case.values[0].read_bytes() for case in cases)

    assert written_with(manifests(), manifest_avro.MANIFEST_SCHEMA) > 0
    assert (
        written_with(cases_of("manifest/manifest-list-*"), manifest_avro.MANIFEST_LIST_SCHEMA) > 0
    )


@pytest.mark.parametrize("root", UNBRANCHED, ids=lambda root: str(root.relative_to(TABLES)))
def test_partitions_keys_and_statistics_have_our_bytes(root):
    schemas = newest_schemas(root)
    for path in (root / "manifest").glob("manifest-*"):
        if path.name.startswith("manifest-list"):
            continue
        for entry in manifest_avro.read_manifest(path.read_bytes(), str(path)):
            file, schema = entry.file, schemas[entry.file.schema_id]
            partition_types = [field.type for field in schema.partition_fields]
            key_types = [field.type for field in schema.key_fields]
            columns = file.value_stats_cols
            if columns is None:
                columns = file.write_cols or schema.field_names
            stats_types = [schema.by_name[name].type for name in columns if name in schema.by_name]
            if len(stats_types) != len(columns):
                continue  # statistics of row ids, which the schema does not list
            for row, types in (
                (entry.partition, partition_types),
                (file.min_key, key_types),
                (file.max_key, key_types),
                (file.key_stats.min_values, key_types),
                (file.value_stats.min_values, stats_types),
                (file.value_stats.max_values, stats_types),
            ):
                values = deserialize_row(row, types)
                ours = serialize_row(values, types)
                assert deserialize_row(ours, types) == values
                if not has_reserving_null(values, types):
                    assert ours == row


def has_reserving_null(values, types):
    """Java reserves room for nulls of long decimals and timestamps in keys, not in statistics."""
    return any(
        value is None and data_type.root in (TypeRoot.DECIMAL, *TIMESTAMP_ROOTS)
        for value, data_type in zip(values, types, strict=True)
    )


@pytest.mark.parametrize("root", UNBRANCHED, ids=lambda root: str(root.relative_to(TABLES)))
def test_rows_are_in_bucket_of_their_key_hash(root):
    schemas = newest_schemas(root)
    for path in (root / "manifest").glob("manifest-*"):
        if path.name.startswith("manifest-list"):
            continue
        for entry in manifest_avro.read_manifest(path.read_bytes(), str(path)):
            schema = schemas[entry.file.schema_id]
            if entry.total_buckets < 1 or schema.typed_options.get(BUCKET) < 1:
                continue
            fields = schema.columns(schema.bucket_keys)
            types, total = [field.type for field in fields], entry.total_buckets
            if schema.bucket_keys == schema.trimmed_primary_keys:
                for row in (entry.file.min_key, entry.file.max_key):
                    assert bucket_of(deserialize_row(row, types), types, total) == entry.bucket
            found = [*root.glob(f"**/bucket-{entry.bucket}/{entry.file.file_name}")]
            if found and entry.file.file_format == "parquet":
                names = [field.name for field in fields]
                table = pq.ParquetFile(found[0]).read(columns=names)
                numbers = bucket_numbers(table.select(names).columns, types, total)
                assert set(numbers.tolist()) == {entry.bucket}


@given(st.data())
def test_damaged_java_manifest_raises_typed_error(data):
    path = data.draw(st.sampled_from([case.values[0] for case in manifests()][::9]))
    whole = path.read_bytes()
    if whole.startswith(MAGIC):  # damage inside ORC is found, or not, by the ORC library
        check_damage(data, whole, lambda each: manifest_avro.read_manifest(each, "m"))
