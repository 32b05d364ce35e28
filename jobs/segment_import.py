"""The job that imports a folder as segments of a table, and a sensor that watches one for more.

The Launchpad of the job is filled with a dry run. The sensor is shipped stopped.
"""

import dagster as dg

from jobs.demo.archive import TABLE, archive_parquet, source_of
from paimon_assets.assets import (
    SegmentImportConfig,
    build_new_segments_sensor,
    build_segment_import_job,
)

_SOURCE = source_of("parquet")

segment_import_job: dg.JobDefinition = build_segment_import_job(
    suggestion=SegmentImportConfig(
        table=TABLE,
        path=_SOURCE.path or "",
        partition=_SOURCE.partition or "",
        only_new=True,
        dry_run=True,
    )
)

archive_new_segments = build_new_segments_sensor(
    archive_parquet, source=_SOURCE, name="archive_new_segments"
)
