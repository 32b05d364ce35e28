"""Write, audit, publish: checks that judge a batch before any reader can see it.

    function ─▶ frame ─▶ files ─▶ branch audit_<run>_<step> ─▶ checks ─┬─▶ commit ─▶ materialization
                                                                       └─▶ failed check, failed step

A blocking check that fails keeps the batch out: the table stays at its snapshot, the check's result
is in the UI, and the batch stays readable as `<table>$branch_audit_<run>_<step>`. Without blocking,
or with severity WARN, the batch is committed and the check says what is wrong with it. A check that
raises fails the step; of its batch nothing is left.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from paimon_assets.assets.check_run import CheckOptions, executor_of_check
from paimon_assets.assets.metadata import Metadata
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.staged_batch import BatchRefusedError, StagedBatch, batch_read

BLOCKING = CheckOptions(blocking=True)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict of a check on a batch."""

    passed: bool
    description: str
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The rows a check judges: those a run is about to commit, and no others."""

    table: str
    """`database.table`, for messages."""
    read: ReadBuilder
    """The read of the batch; of each key its last row, deletes left out."""
    executor: Executor[Any]
    """Who reads."""
    physical_rows: int
    """Rows in the batch's files."""
    shows_values: bool = True
    """Whether verdicts may show some of the rows' values."""


@dataclass(frozen=True, kw_only=True)
class BatchCheck:
    """A check of every batch of an asset, before it is committed.

    >>> def not_empty(batch: Batch) -> Verdict:
    ...     return Verdict(passed=batch.physical_rows > 0, description="rows in the batch")
    >>> BatchCheck(name="not_empty", evaluate=not_empty).options.blocking
    True
    """

    name: str
    evaluate: Callable[[Batch], Verdict]
    description: str = "Judges each batch before it is committed."
    options: CheckOptions = BLOCKING
    """Blocking by default: what fails is not committed."""

    @property
    def check_name(self) -> str:
        """Its name in Dagster."""
        return self.options.name or self.name

    @property
    def keeps_out(self) -> bool:
        """Whether a failure keeps the batch from being committed."""
        return self.options.blocking and self.options.severity is dg.AssetCheckSeverity.ERROR

    def spec(self, key: dg.AssetKey) -> dg.AssetCheckSpec:
        """Return what Dagster shows of the check before it ran."""
        return dg.AssetCheckSpec(
            name=self.check_name,
            asset=key,
            description=self.description,
            blocking=self.options.blocking,
        )


class BatchAudit:
    """The audit of one write: judges its batch when asked to, and keeps the results."""

    def __init__(
        self, checks: Sequence[BatchCheck], table: Table, paimon: PaimonCatalogResource
    ) -> None:
        self._checks = checks
        self._table = table
        self._paimon = paimon
        self._results: list[dg.AssetCheckResult] = []

    def __call__(self, batch: StagedBatch) -> None:
        """Judge a staged batch.

        Raises:
            BatchRefusedError: A blocking check failed.
        """
        metadata = {"paimon/batch": batch.name, **self._snapshot_metadata()}
        refusing = self._judge(batch.new_read_builder(), batch.physical_rows, metadata)
        if not refusing:
            return
        newest = self._table.latest_snapshot()
        stays = f"stays at snapshot {newest.id}" if newest else "has no snapshot yet"
        raise BatchRefusedError(
            f"{' '.join(refusing)} The batch was not committed: {self._table.name} {stays}. Mend "
            f"the rows and run again; they can be read as '{batch.name}' until that branch is "
            "deleted.",
            details={"table": self._table.name, "branch": batch.branch},
            results=self._results,
        )

    def results(
        self, earlier: Snapshot | None = None, replaced: ReadBuilder | None = None
    ) -> Sequence[dg.AssetCheckResult]:
        """Return the results, of no rows if nothing was staged.

        What an earlier try committed is judged again, and stays; after it `replaced`, a read of
        what an overwrite replaces, holds the batch.
        """
        if not self._results and earlier is not None:
            self._judge_again(earlier, replaced)
        if not self._results:
            self._results = list(results_without_rows(self._checks))
        return tuple(self._results)

    def _judge_again(self, earlier: Snapshot, replaced: ReadBuilder | None) -> None:
        rows = max(earlier.delta_record_count, 0)
        if earlier.commit_kind is CommitKind.APPEND:
            read = batch_read(self._table.new_read_builder().store, earlier)
        elif replaced is not None:
            read = replaced.at_snapshot(earlier.id)
            rows = self._table.physical_rows(earlier)
        else:
            return
        self._judge(read, rows, self._snapshot_metadata())

    def _judge(self, read: ReadBuilder, physical_rows: int, metadata: Metadata) -> list[str]:
        """Ask all checks; return what those say that keep the batch out."""
        refusing = []
        for check in self._checks:
            verdict = check.evaluate(
                Batch(
                    table=self._table.name,
                    read=read,
                    executor=executor_of_check(self._paimon, check.options, physical_rows),
                    physical_rows=physical_rows,
                    shows_values=check.options.shows_values(self._paimon),
                )
            )
            self._results.append(_result(check, verdict, metadata))
            if check.keeps_out and not verdict.passed:
                refusing.append(f"Check '{check.check_name}' failed: {verdict.description}")
        return refusing

    def _snapshot_metadata(self) -> Metadata:
        newest = self._table.latest_snapshot()
        return {"paimon/snapshot_id": newest.id if newest else 0}


def results_without_rows(checks: Sequence[BatchCheck]) -> Sequence[dg.AssetCheckResult]:
    """Return what checks say where there is nothing to judge."""
    none = Verdict(passed=True, description="There were no rows to judge.")
    return [_result(check, none, {}) for check in checks]


def _result(check: BatchCheck, verdict: Verdict, metadata: Metadata) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=verdict.passed,
        check_name=check.check_name,
        severity=check.options.severity,
        description=verdict.description,
        metadata={**metadata, **verdict.metadata},
    )


def reporting_refusals(
    compute: Callable[..., dg.MaterializeResult[Any]],
) -> Callable[..., Iterator[dg.AssetCheckResult | dg.MaterializeResult[Any]]]:
    """Let a compute function report what the checks said, also when the batch is kept out."""

    @functools.wraps(compute)
    def reporting(
        *args: Any, **inputs: Any
    ) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[Any]]:
        try:
            result = compute(*args, **inputs)
        except dg.Failure as failure:
            if isinstance(failure.__cause__, BatchRefusedError):
                yield from failure.__cause__.results
            raise
        yield result

    return reporting
