"""Sharing: which worker runs which tests. Heavy files first, Spark's in as few lanes as are needed.

    files of the one SparkSession ──by weight──► lanes ─┐
    every other file ───────────────────────────────────┴──heaviest first──► a worker that is free

A file stays on one worker, for the fixtures of its module. A lane stays on one worker, which starts
one session for it. Groups made by marks are none to pytest 9.2 and xdist 3.8.
"""

import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

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

WEIGHTS: dict[str, float] = json.loads(
    (Path(__file__).parents[1] / "durations.json").read_text(encoding="utf-8")
)
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
