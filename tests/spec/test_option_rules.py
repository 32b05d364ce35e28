"""Values that options take when they are set; hints for misspelt keys."""

import pytest

from paimon_assets import InvalidInputError
from paimon_assets.engine.spec.evolution.option_rules import check_options, key_hints
from paimon_assets.engine.spec.options.all_options import ALL_OPTIONS
from tests.testkit.tables import table_schema


def schema(options, primary_keys=("id",), **columns):
    declared = {"id": "INT", "v": "STRING"} | columns
    return table_schema(declared, primary_keys=primary_keys, options=options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file.format": "xyz"}, "'file.format' has the value 'xyz': expected one of .*parquet"),
        ({"file.format": "parqet"}, "did you mean 'parquet'"),
        ({"changelog-file.format": "xyz"}, "'changelog-file.format'"),
        ({"file.format.per.level": "0:avro,5:xyz"}, "'file.format.per.level' .*'xyz'"),
        ({"file.compression": "zst"}, "did you mean 'zstd'"),
        ({"file.compression.per.level": "0:fast"}, "'file.compression.per.level'"),
        ({"metadata.stats-mode": "all"}, "'metadata.stats-mode' .*truncate"),
        ({"metadata.stats-mode": "truncate(0)"}, "'metadata.stats-mode'"),
        ({"fields.v.stats-mode": "all"}, "'fields.v.stats-mode'"),
        ({"bucket": "two"}, "'bucket' has the value 'two': expected a whole number"),
        ({"merge-engine": "dedup"}, "'merge-engine' .*deduplicate"),
        ({"snapshot.num-retained.min": "0"}, "'snapshot.num-retained.min' .*at least 1"),
        ({"snapshot.num-retained.max": "5"}, "'snapshot.num-retained.min' = 10 .*max' = 5"),
        ({"changelog.num-retained.min": "0"}, "'changelog.num-retained.min' .*at least 1"),
        ({"changelog.num-retained.max": "5"}, "'changelog.num-retained.min' = 10 .*max' = 5"),
        ({"snapshot.expire.limit": "0"}, "'snapshot.expire.limit' .*at least 1"),
        (
            {"deletion-vectors.enabled": "true", "changelog-producer": "full-compaction"},
            "changelog producer of none, input or lookup",
        ),
        ({"num-levels": "1"}, "'num-levels' must be at least 2"),
        ({"data-evolution.enabled": "true"}, "needs 'row-tracking.enabled'"),
        ({"fields.w.ignore-retract": "true"}, "'fields.w.ignore-retract' names column 'w'"),
        ({"fields.v.ignore-retract": "yes"}, "expected true or false"),
        ({"file-index.bloom-filter.columns": "v, w"}, "names column 'w'"),
        ({"file-index.bloom-filter.v.fpp": "7"}, "'file-index.bloom-filter.v.fpp' .*between"),
    ],
)
def test_wrong_value_is_refused_with_its_key(options, message):
    with pytest.raises(InvalidInputError, match=message):
        check_options(schema(options), {})


@pytest.mark.parametrize(
    "options",
    [
        {"file.format": "ORC", "file.compression": "SNAPPY"},
        {"file.format": "lance"},  # of another engine
        {"metadata.stats-mode": "Truncate(4)"},
        {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"},
        {"snapshot.num-retained.min": "20", "changelog.num-retained.max": "20"},
        {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
        {"fields.id,v.sequence-group": "v", "fields.v.default-value": "x"},
        {"fields.default-aggregate-function": "sum"},
        {"fields.m.map.storage-layout": "default", "file-index.bitmap.columns": "m[a], v"},
        {"anything": "goes", "my.own.key": "too"},
    ],
)
def test_values_of_java_are_taken(options):
    check_options(schema(options, m="MAP<STRING, INT>"), {})


def test_only_changed_options_are_checked():
    old = {"file.format": "xyz", "snapshot.num-retained.max": "5"}
    check_options(schema({**old, "bucket": "1"}), old)
    with pytest.raises(InvalidInputError, match="num-retained"):
        check_options(schema({"snapshot.num-retained.max": "5"}), {
            "snapshot.num-retained.max": "5", "snapshot.num-retained.min": "1",
        })  # fmt: skip


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("bucke", "bucket"),
        ("bukcet", "bucket"),
        ("Bucket", "bucket"),
        ("bucket_key", "bucket-key"),
        ("file-format", "file.format"),
        ("snapshot.num-retained-max", "snapshot.num-retained.max"),
        ("merge-engin", "merge-engine"),
        ("fields.v.ignore-retrac", "fields.v.ignore-retract"),
        ("fields.a,b.sequence_group", "fields.a,b.sequence-group"),
        ("file-index.bloom-filter.column", "file-index.bloom-filter.columns"),
    ],
)
def test_similar_key_is_suggested(key, meant):
    assert key_hints([key]) == {key: meant}


FOREIGN_KEYS = """
alter-column-null-to-not-null.disabled async-file-write auto-create blob-field
blob-descriptor-field cache-page-size changelog-file.prefix clustering.columns
clustering.incremental commit.callbacks commit.force-compact commit.force-create-snapshot
commit.user-prefix compaction.max.file-num compaction.force-wait compaction.delta-commits
consumer-id consumer.ignore-progress consumer.mode continuous.discovery-interval
cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl
data-file.thin-mode delete-file.thread-num delete.force-produce-changelog
dynamic-bucket.assigner-parallelism end-input.check-partition-expire fields.v.default-value
file-operation.thread-num file-reader-async-threshold file.suffix.include.compression
format-table.file.compression format-table.implementation full-compaction.delta-commits
incremental-between-tag-to-snapshot local-merge-buffer-size local-sort.max-num-file-handles
lookup-compact lookup-compact.max-interval lookup-wait lookup.cache-file-retention
lookup.cache-max-disk-size lookup.cache-spill-compression lookup.cache.bloom.filter.enabled
lookup.cache.bloom.filter.fpp lookup.cache.high-priority-pool-ratio lookup.hash-load-factor
lookup.local-file-type lookup.remote-file.enabled manifest.compression
manifest.delete-file-drop-stats materialized-table.definition-query
merge.engine.x metastore.partitioned-table metastore.tag-to-partition
num-sorted-run.stop-trigger object-location orc.column.encoding.direct orc.write.batch-size
owner page-size parallelism parquet.writer.version partition partition.expiration-batch-size
partition.expiration-check-interval partition.end-input-to-done
partition.idle-time-to-report-statistic partition.mark-done-action partition.sink-strategy
partition.timestamp-formatter path prefix primary-key pk-clustering-override precommit-compact
query-auth.enabled read.batch-size record-level.expire-time record-level.time-field
record-level.time-field-type rowkind.field scan.bounded.watermark scan.fallback-branch
scan.file-creation-time-millis scan.infer-parallelism scan.manifest.parallelism
scan.max-splits-per-task scan.parallelism scan.plan-sort-partition scan.remove-normalize
scan.watermark.alignment.group sequence.field sink.parallelism sink.clustering.by-columns
sink.savepoint.auto-tag sink.watermark-time-zone snapshot.clean-empty-directories
snapshot.expire.execution-mode snapshot.ignore-empty-commit snapshot.watermark-idle-timeout
sort-compaction.range-strategy sort-engine sort-spill-buffer-size sort-spill-threshold
source.checkpoint-align.enabled spill-compression spill-compression.zstd-level
streaming-read-mode streaming-read-overwrite streaming.read.snapshot.delay
tag.batch.customized-name tag.callbacks tag.create-success-file tag.time-expire-enabled
type-owner unaware-bucket.compaction.parallelism upsert-key variant.inferShreddingSchema
visibility-callback.enabled write-buffer-for-append write-buffer-spill.max-disk-size
write-buffer-spillable write-manifest-cache write-max-writers-to-spill write.batch-size
write.batch-memory zorder.var-length-contribution fs.s3a.endpoint delta.name
"""


def test_keys_of_other_engines_pass():
    assert key_hints(FOREIGN_KEYS.split()) == {}
    assert key_hints(option.key for option in ALL_OPTIONS) == {}
    assert key_hints(key for option in ALL_OPTIONS for key in option.fallback_keys) == {}
