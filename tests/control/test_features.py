import pytest

from paimon_assets.engine.control.features import check_readable, check_writable
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema, first_table_schema

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
        (PLAIN, {"type": "format-table"}, "unsupported-table-type"),
        (PLAIN, {"chain-table.enabled": "true"}, "unsupported-chain-table"),
        (PLAIN, {"query-auth.enabled": "true"}, "unsupported-query-auth"),
        (PLAIN, {"scan.primary-branch": "old"}, "unsupported-branch"),
        (PLAIN, {"fields.v.map.storage-layout": "shared-shredding"}, "unsupported-map-layout"),
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
        (PLAIN, {"data-evolution.enabled": "true"}, "unsupported-data-evolution"),
        (PLAIN, {"metadata.iceberg.storage": "table-location"}, "unsupported-iceberg-metadata"),
        (PLAIN, {"manifest.format": "orc"}, "unsupported-manifest-format"),
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
        (KEY, {"deletion-vectors.enabled": "true"}),
        (PLAIN, {"data-evolution.enabled": "true"}),
        (PLAIN, {"branch": "test"}),
        (PLAIN, {"metadata.iceberg.storage": "hive-catalog"}),
        (PLAIN, {"manifest.format": "parquet"}),
        ({"columns": {"b": "BLOB", "v": "INT"}}, {"data-evolution.enabled": "true"}),
        (PLAIN, {"scan.fallback-branch": "old"}),
        (PLAIN, {"fields.v.map.storage-layout": "default"}),
        (KEY, {"bucket": "-1"}),
        (KEY, {"bucket": "-2"}),
        (KEY, {"changelog-producer": "input"}),
    ],
)
def test_what_only_a_writer_must_care_for_is_read(declared, options):
    check_readable("db.t", _schema(declared, **options))


def test_iceberg_metadata_that_is_switched_off_and_avro_manifests_are_written():
    options = {"metadata.iceberg.storage": "disabled", "manifest.format": "AVRO"}
    check_writable("db.t", _schema(PLAIN, **options))
