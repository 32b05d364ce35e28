"""Runs that a sensor asks for: once for one state of a table, and again when it came back to it.

Dagster makes one run for one run key, for ever. A table that is rolled back needs the same files
again, and a compaction that failed is still due: then the key gets a number.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import dagster as dg

from paimon_assets.engine.control.segments.segment_folder import FolderFile
from paimon_assets.engine.spec.words import printable

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


def digest_of(files: Iterable[FolderFile]) -> str:
    """Return a short name of exactly these files, as they are now."""
    text = "\n".join(f"{file.name}\t{file.size}\t{file.modified_ms}" for file in files)
    return hashlib.sha256(printable(text).encode()).hexdigest()[:16]


def request_once(
    context: dg.SensorEvaluationContext,
    key: str,
    what: str,
    *,
    config: dg.RunConfig | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.SkipReason | dg.SensorResult:
    """Ask for a run with a key, unless one was asked for; `what` says what is new."""
    before = asked(context.instance, key)
    if not before.is_due_again or context.cursor == before.run_key:
        return dg.SkipReason(
            f"{what} requested already, as run key '{key}'; if that run failed, re-execute it."
        )
    tags = {**(tags or {}), REQUEST_TAG: key}
    request = dg.RunRequest(run_key=before.run_key, run_config=config, tags=tags)
    return dg.SensorResult(run_requests=[request], cursor=before.run_key)


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
