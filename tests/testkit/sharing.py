"""Sharing: which worker runs which tests. Heavy files first, Spark's in as few lanes as are needed.

    files of the one SparkSession ──by weight──► lanes ─┐
    every other file ───────────────────────────────────┴──heaviest first──► a worker that is free

A file stays on one worker, for the fixtures of its module. A lane stays on one worker, which starts
one session for it. Groups made by marks are none to pytest 9.2 and xdist 3.8.
"""

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

OWN_JVM = (
    "tests/faults/test_killed_spark",
    "tests/e2e/",
    "tests/spark/test_cluster",
    "tests/spark/test_connect",
    "tests/spark/test_java",
)
"""What starts JVMs of its own beside the one SparkSession."""

OF_SESSION = ("tests/behaviour/", "tests/e2e/test_docs.py")
"""What uses the one SparkSession though its name does not say so."""

WEIGHTS = {
    "tests/assets/test_compaction.py": 4.0,
    "tests/assets/test_ingestion.py": 3.5,
    "tests/assets/test_io_audit.py": 5.0,
    "tests/assets/test_io_frames.py": 3.5,
    "tests/assets/test_io_inputs.py": 4.0,
    "tests/assets/test_io_on_spark.py": 15.5,
    "tests/assets/test_io_partitions.py": 6.5,
    "tests/assets/test_landing.py": 4.0,
    "tests/assets/test_loading.py": 4.5,
    "tests/assets/test_on_spark.py": 11.0,
    "tests/behaviour/test_bucket_modes.py": 4.5,
    "tests/behaviour/test_changes.py": 3.5,
    "tests/behaviour/test_executors.py": 14.5,
    "tests/behaviour/test_row_changes.py": 5.5,
    "tests/behaviour/test_schema_evolution.py": 3.5,
    "tests/data/test_bounded_merge.py": 6.0,
    "tests/data/test_merge_engines.py": 6.0,
    "tests/data/test_merge_tables.py": 3.5,
    "tests/data/test_write.py": 5.5,
    "tests/e2e/test_demo.py": 54.0,
    "tests/e2e/test_docs.py": 13.5,
    "tests/e2e/test_readme.py": 4.0,
    "tests/e2e/test_ui.py": 8.5,
    "tests/e2e/test_workspace.py": 7.0,
    "tests/faults/test_concurrent_commits.py": 4.5,
    "tests/faults/test_dying_deeds.py": 23.0,
    "tests/faults/test_hostile_files.py": 4.0,
    "tests/faults/test_killed_audit.py": 4.5,
    "tests/faults/test_killed_compaction.py": 4.5,
    "tests/faults/test_killed_jobs.py": 10.5,
    "tests/faults/test_killed_materialization.py": 7.0,
    "tests/faults/test_killed_runs.py": 3.5,
    "tests/faults/test_killed_writer.py": 9.0,
    "tests/faults/test_races.py": 5.5,
    "tests/faults/test_races_of_cleaning.py": 12.0,
    "tests/faults/test_stress.py": 8.5,
    "tests/faults/test_unknown_outcomes.py": 4.5,
    "tests/fileio/test_s3.py": 8.5,
    "tests/fileio/test_s3_faults.py": 19.0,
    "tests/jobs/test_change_log.py": 4.0,
    "tests/server/test_killed_server.py": 5.5,
    "tests/server/test_on_s3.py": 11.5,
    "tests/spark/test_claimed_size.py": 4.0,
    "tests/spark/test_cluster.py": 22.0,
    "tests/spark/test_connect.py": 25.5,
    "tests/spark/test_data_source.py": 6.0,
    "tests/spark/test_executor.py": 5.5,
    "tests/spark/test_java.py": 14.5,
    "tests/spark/test_merge.py": 11.0,
    "tests/spark/test_native_read.py": 6.5,
    "tests/spark/test_plain_scan.py": 9.5,
    "tests/spark/test_python_rows.py": 4.0,
    "tests/spark/test_read_here.py": 4.0,
    "tests/spark/test_renewed_tokens.py": 28.0,
    "tests/spark/test_session.py": 13.0,
    "tests/spark/test_sql.py": 58.0,
    "tests/spark/test_sql_pushdown.py": 11.0,
    "tests/spark/test_streaming.py": 8.5,
    "tests/stateful/test_machine.py": 9.0,
    "tests/stateful/test_maintenance.py": 3.5,
    "tests/table/test_catalog_kinds.py": 7.5,
    "tests/table/test_compaction.py": 14.0,
    "tests/table/test_frame_matrix.py": 4.0,
    "tests/table/test_java_tables.py": 4.5,
    "tests/table/test_row_changes.py": 3.5,
    "tests/table/test_row_merges.py": 6.0,
}
"""File → measured seconds of CPU, children included; of heavy files only."""
SECONDS, SPARK_SECONDS = 0.04, 0.3
"""Weight of a test, and of one on Spark, whose file has none."""


def uses_session(nodeid: str) -> bool:
    """Whether a test belongs to the one SparkSession; its file's other tests go with it."""
    if nodeid.startswith(OF_SESSION):
        return True
    return "spark" in nodeid and not nodeid.startswith(OWN_JVM)


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def weigh(nodeids: Iterable[str]) -> dict[str, float]:
    counted: dict[str, float] = defaultdict(float)
    for nodeid in nodeids:
        counted[file_of(nodeid)] += SPARK_SECONDS if uses_session(nodeid) else SECONDS
    return {file: WEIGHTS.get(file, seconds) for file, seconds in counted.items()}


def deal(weights: Mapping[str, float], lanes: int) -> dict[str, int]:
    """Deal files to lanes so that no lane is much heavier than another: file → lane."""
    loads, dealt = [0.0] * lanes, {}
    for file, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        lane = loads.index(min(loads))
        dealt[file] = lane
        loads[lane] += weight
    return dealt


class ByWeight(LoadScopeScheduling):  # type: ignore[misc]
    """The schedule of a run on several workers."""

    def schedule(self) -> None:
        """Weigh what was collected, then share it."""
        if self.collection is None and self.registered_collections:
            nodeids = next(iter(self.registered_collections.values()))
            weights = weigh(nodeids)
            spark = {file_of(nodeid) for nodeid in nodeids if uses_session(nodeid)}
            of_spark = {file: weights[file] for file in spark}
            cores = min(self.numnodes, os.cpu_count() or 1)  # a worker may wait, a core must not
            fair = sum(weights.values()) / cores
            needed = math.ceil(sum(of_spark.values()) / fair)
            self._lanes = deal(of_spark, max(1, min(needed, cores)))
            self._weights: dict[str, float] = defaultdict(float)
            for file, weight in weights.items():
                self._weights[self._split_scope(file)] += weight
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        lane = self._lanes.get(file)
        return file if lane is None else f"spark {lane}"

    def _assign_work_unit(self, node: WorkerController) -> None:
        heaviest = max(self.workqueue, key=lambda scope: self._weights[scope])
        self.workqueue.move_to_end(heaviest, last=False)
        super()._assign_work_unit(node)
