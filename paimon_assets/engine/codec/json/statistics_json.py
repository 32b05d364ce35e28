"""Statistics → the JSON of `statistics/stat-*` files.

Source: `org.apache.paimon.stats.StatsFile`.
"""

import json

from paimon_assets.engine.spec.metadata.table_statistics import ColumnStatistics, Statistics
from paimon_assets.engine.spec.types.type_text import Json


def statistics_to_json(statistics: Statistics) -> bytes:
    """Write statistics; unknown ones are left out."""
    members: dict[str, Json] = {
        "snapshotId": statistics.snapshot_id,
        "schemaId": statistics.schema_id,
        "mergedRecordCount": statistics.merged_record_count,
        "mergedRecordSize": statistics.merged_record_size,
        "colStats": {name: _column(known) for name, known in statistics.columns.items()},
    }
    return json.dumps(_known(members), ensure_ascii=False).encode()


def _column(column: ColumnStatistics) -> dict[str, Json]:
    return _known(
        {
            "colId": column.column_id,
            "distinctCount": column.distinct_count,
            "min": column.minimum,
            "max": column.maximum,
            "nullCount": column.null_count,
            "avgLen": column.average_length,
            "maxLen": column.maximum_length,
        }
    )


def _known(members: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in members.items() if value is not None}
