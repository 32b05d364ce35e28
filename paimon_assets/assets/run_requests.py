"""Runs that a sensor asks for: once for one state of a table, and again when it came back to it.

Dagster makes one run for one run key, for ever. A table that is rolled back needs the same files
again, and a compaction that failed is still due: then the key gets a number.
"""

from dataclasses import dataclass

import dagster as dg

REQUEST_TAG = "paimon/request"
"""Tag of a requested run: what it was asked for, whatever its number."""
FAILED = frozenset({dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What became of the runs that were asked for with one key."""

    key: str
    """What they were asked for: the state of a table, and what is to be done."""
    times: int
    status: dg.DagsterRunStatus | None = None
    """The status of the newest of them, None if there is none."""
    ended: float | None = None
    """When that ended, epoch seconds."""

    @property
    def is_due_again(self) -> bool:
        """Whether what was done is to be done anew."""
        return self.status is None or self.status is dg.DagsterRunStatus.SUCCESS

    @property
    def run_key(self) -> str:
        """The run key of the next one."""
        return f"{self.key}#{self.times + 1}" if self.times else self.key


def asked(instance: dg.DagsterInstance, key: str) -> Asked:
    """Return what became of the runs asked for with a key. Cost: one query by a tag."""
    records = instance.get_run_records(dg.RunsFilter(tags={REQUEST_TAG: key}))
    if not records:
        return Asked(key=key, times=0)
    newest = records[0]
    return Asked(
        key=key,
        times=len(records),
        status=newest.dagster_run.status,
        ended=newest.end_time,
    )
