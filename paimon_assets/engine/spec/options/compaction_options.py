"""Options of compaction: its triggers, its sizes and its files.

`spec.options.all_options` lists them, too.
Source: `org.apache.paimon.CoreOptions`.
"""

from paimon_assets.engine.spec.options.option import (
    Option,
    Use,
    names,
    parse_duration_ms,
    parse_memory,
    parse_ratio,
    unset,
)

NUM_LEVELS = Option(
    "num-levels", 0, "Levels of the LSM tree; 0 = compaction trigger + 1.", use=Use.BOTH
)
COMPACTION_TRIGGER = Option(
    "num-sorted-run.compaction-trigger", 5, "Sorted runs that start a compaction.", use=Use.BOTH
)
WRITE_ONLY = Option(
    "write-only", False, "Whether another job compacts the table, and no writer does."
)
COMPACTION_SIZE_RATIO = Option(
    "compaction.size-ratio", 1, "Percent by which the next sorted run may be larger."
)
COMPACTION_OFF_PEAK_START = Option(
    "compaction.offpeak.start.hour", -1, "First hour of the day that is off-peak; -1 is none."
)
COMPACTION_OFF_PEAK_END = Option(
    "compaction.offpeak.end.hour", -1, "First hour that is not off-peak any more; -1 is none."
)
COMPACTION_OFF_PEAK_RATIO = Option(
    "compaction.offpeak-ratio", 0, "Percent that 'compaction.size-ratio' is larger off-peak."
)
COMPACTION_REWRITE_ALL_FILES = Option(
    "compaction.force-rewrite-all-files",
    False,
    "Whether a full compaction rewrites every file, such as in another format.",
)
COMPACTION_MAX_SIZE_AMPLIFICATION = Option(
    "compaction.max-size-amplification-percent",
    200,
    "Percent of the oldest sorted run that the newer ones may have.",
)
COMPACTION_FORCE_UP_LEVEL_0 = Option(
    "compaction.force-up-level-0", False, "Whether every compaction takes all files of level 0."
)
COMPACTION_OPTIMIZATION_INTERVAL = unset(
    "compaction.optimization-interval",
    parse_duration_ms,
    "Time after which a full compaction is due.",
)
COMPACTION_TOTAL_SIZE_THRESHOLD = unset(
    "compaction.total-size-threshold",
    parse_memory,
    "Size of a bucket below which it is compacted as a whole.",
)
COMPACTION_INCREMENTAL_SIZE_THRESHOLD = unset(
    "compaction.incremental-size-threshold",
    parse_memory,
    "Size of the sorted runs below the top level that makes a full compaction due.",
)
COMPACTION_MIN_FILE_NUM = Option(
    "compaction.min.file-num", 5, "Small files of an append table that are compacted."
)
COMPACTION_DELETE_RATIO = Option(
    "compaction.delete-ratio-threshold",
    0.2,
    "Rewrite an append file once this fraction of its rows is deleted.",
    parse=parse_ratio,
)
COMPACTION_SMALL_FILE_RATIO = Option(
    "compaction.small-file-ratio",
    0.7,
    "Part of the target file size below which a file is small.",
    parse=parse_ratio,
)
COMPACTION_SKIP_EXPIRED_PARTITIONS = Option(
    "compaction.skip-expired-partitions",
    False,
    "Whether compactions leave out partitions that 'partition.expiration-time' empties soon.",
)
CHANGELOG_ROW_DEDUPLICATE = Option(
    "changelog-producer.row-deduplicate",
    False,
    "Whether updates that change no value are left out of the changelog.",
)
CHANGELOG_ROW_DEDUPLICATE_IGNORE = names(
    "changelog-producer.row-deduplicate-ignore-fields",
    "Columns whose change alone is no update of the changelog.",
)
FORCE_LOOKUP = Option(
    "force-lookup",
    False,
    "Whether a compaction of level 0 merges in the records of higher levels with its keys.",
)
DELETION_VECTORS_BITMAP64 = Option(
    "deletion-vectors.bitmap64", False, "Write deletion vectors of 64 bits."
)
