"""Options of commits: retries, conflicts, overwrites, and the manifests they leave.

Source: `org.apache.paimon.CoreOptions`.
"""

from paimon_assets.engine.spec.options.option import (
    Option,
    duration,
    parse_duration_ms,
    size,
    unset,
)

COMMIT_MAX_RETRIES = Option(
    "commit.max-retries",
    10,
    "Tries after a lost commit race, or after a conflict that ends by another plan.",
)
COMMIT_MIN_RETRY_WAIT = duration(
    "commit.min-retry-wait", 10, "First wait after a lost commit race."
)
COMMIT_MAX_RETRY_WAIT = duration(
    "commit.max-retry-wait", 10_000, "Longest wait after a lost commit race."
)
COMMIT_TIMEOUT = unset(
    "commit.timeout", parse_duration_ms, "Time after which a commit is not tried again."
)
COMMIT_STRICT_MODE_LAST_SAFE_SNAPSHOT = unset(
    "commit.strict-mode.last-safe-snapshot",
    int,
    "Newest snapshot after which no other user may have compacted or overwritten the same files.",
)
DYNAMIC_PARTITION_OVERWRITE = Option(
    "dynamic-partition-overwrite",
    True,
    "Whether an overwrite replaces only the partitions that its rows lie in.",
)
OVERWRITE_UPGRADE = Option(
    "overwrite-upgrade",
    True,
    "Whether files of an overwrite that share no key go to the highest level at once.",
)
MANIFEST_TARGET_FILE_SIZE = size(
    "manifest.target-file-size", 8 * 1024 * 1024, "Size manifests are merged to."
)
MANIFEST_FULL_COMPACTION_SIZE = size(
    "manifest.full-compaction-threshold-size",
    16 * 1024 * 1024,
    "Bytes of small manifests that start a full manifest compaction.",
)
MANIFEST_MERGE_MIN_COUNT = Option(
    "manifest.merge-min-count", 30, "Manifests that start a merge of small manifests."
)
