"""The job that imports a folder as segments of a table, and a sensor that watches one for more.

The Launchpad of the job is filled with a dry run. The sensor is shipped stopped.
"""

import dagster as dg

from jobs.tables import SEGMENT_EXAMPLE, SEGMENT_SOURCE, SEGMENTS
from paimon_assets.assets import build_new_segments_sensor, build_segment_import_job

segment_import_job: dg.JobDefinition = build_segment_import_job(suggestion=SEGMENT_EXAMPLE)

archive_new_segments = build_new_segments_sensor(
    SEGMENTS, source=SEGMENT_SOURCE, name="archive_new_segments"
)
