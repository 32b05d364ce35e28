"""Write, audit, publish: checks of a batch before any reader can see it.

    function ─▶ frame ─▶ files ─▶ branch audit_<run>_<step> ─▶ checks ─┬─▶ commit ─▶ materialization
                                                                       └─▶ failed check, failed step

A blocking check that fails refuses the batch: the table stays at its snapshot, the check's result
is in the UI, and the batch stays readable as `<table>$branch_audit_<run>_<step>`. Without blocking,
or with severity WARN, the batch is committed and the check describes its faults. A check that
raises fails the step; its batch is removed.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
from msgspec import Struct, field

from paimon_assets.assets.check_run import CheckOptions, executor_of_check
from paimon_assets.assets.metadata import Metadata, checked_snapshot
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import CommitKind, Snapshot
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.frames.frames import Frame
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.staged_batch import BatchRefusedError, StagedBatch, batch_read

BLOCKING = CheckOptions(blocking=True)


class Verdict(Value):
    """The verdict of a check on a batch; see `BatchCheck`."""

    passed: bool
    description: str
    metadata: Metadata = field(default_factory=dict)


class Batch(Value):
    """The rows that a check judges: those of the coming commit only."""

    table: str
    """`database.table`, for messages."""
    read: ReadBuilder
    """A read of the batch: the last row of each key, without deletes."""
    executor: Executor[Any]
    physical_rows: int
    shows_values: bool = True


class BatchCheck(Value):
    """A check of every batch of an asset, before it is committed.

    >>> def not_empty(batch: Batch) -> Verdict:
    ...     return Verdict(passed=batch.physical_rows > 0, description="rows in the batch")
    >>> BatchCheck(name="not_empty", evaluate=not_empty).options.blocking
    True
    """

    name: str
    evaluate: Callable[[Batch], Verdict]
    description: str = "Checks each batch before it is committed."
    options: CheckOptions = BLOCKING
    """Blocking by default: a batch that fails is not committed."""

    @property
    def check_name(self) -> str:
        return self.options.name or self.name

    @property
    def keeps_out(self) -> bool:
        return self.options.blocking and self.options.severity is dg.AssetCheckSeverity.ERROR

    def spec(self, key: dg.AssetKey) -> dg.AssetCheckSpec:
        return dg.AssetCheckSpec(
            name=self.check_name,
            asset=key,
            description=self.description,
            blocking=self.options.blocking,
        )


class BatchAudit:
    """The audit of one write: runs the checks of its batch, and stores their results."""

    def __init__(
        self, checks: Sequence[BatchCheck], table: Table, paimon: PaimonCatalogResource
    ) -> None:
        self._checks = checks
        self._table = table
        self._paimon = paimon
        self._results: list[dg.AssetCheckResult] = []

    def __call__(self, batch: StagedBatch) -> None:
        """Check a staged batch; after a retry the last results count."""
        self._results = []
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
            table=self._table.name,
            branch=batch.branch,
            results=self._results,
        )

    def results(
        self, earlier: Snapshot | None = None, replaced: ReadBuilder | None = None
    ) -> Sequence[dg.AssetCheckResult]:
        """Return the results; those of an empty batch if nothing was staged.

        If an earlier try has committed, its rows are checked again; the commit stays. The rows of
        an overwrite are read by `replaced`.
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
            rows = self._table.state.physical_rows(earlier)
        else:
            return
        self._judge(read, rows, self._snapshot_metadata())

    def _judge(self, read: ReadBuilder, physical_rows: int, metadata: Metadata) -> list[str]:
        """Run all checks; return the failures of those that refuse the batch."""
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
        return checked_snapshot(self._table.latest_snapshot())


def results_without_rows(checks: Sequence[BatchCheck]) -> Sequence[dg.AssetCheckResult]:
    """Return passed results of all checks, for a batch without rows."""
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


class AuditedFrame(Struct, kw_only=True):
    """A frame on its way to the IO manager, and the checks that judge it there."""

    frame: Frame | None
    checks: Sequence[BatchCheck] = ()
    results: Sequence[dg.AssetCheckResult] | None = None
    """Results of the checks; None until the IO manager ran them."""


def audited_asset(
    *, before_commit: Sequence[BatchCheck], **options: Any
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Define an asset as `dg.asset` does, with checks of each batch before it is committed.

    For assets that `PaimonIOManager` stores; `paimon_asset` takes `before_commit` itself. The
    function returns a frame, a `dg.Output` or `dg.MaterializeResult` of one, or None.

    Args:
        before_commit: The checks, such as those of `build_pandera_checks`.
        **options: As for `dg.asset`.

    Raises:
        InvalidInputError: In the run: its IO manager is none of `PaimonIOManager` (kind
            `io-manager`).

    >>> @audited_asset(before_commit=[], key=["shop", "sales"])
    ... def sales() -> Any: ...
    >>> sales.key
    AssetKey(['shop', 'sales'])
    """

    def decorate(function: Callable[..., Any]) -> dg.AssetsDefinition:
        key = _key_of(function, options)
        specs = [check.spec(key) for check in before_commit]
        settings = {"description": inspect.getdoc(function), **options}
        settings["check_specs"] = [*options.get("check_specs", ()), *specs]
        asset: dg.AssetsDefinition = dg.asset(**settings)(_audit_frame(function, before_commit))
        return asset

    return decorate


def _key_of(function: Callable[..., Any], options: dict[str, Any]) -> dg.AssetKey:
    if "key" in options:
        return dg.AssetKey.from_coercible(options["key"])
    name = dg.AssetKey([options.get("name", function.__name__)])
    return name.with_prefix(options["key_prefix"]) if "key_prefix" in options else name


def _audit_frame(
    function: Callable[..., Any], checks: Sequence[BatchCheck]
) -> Callable[..., Iterator[Any]]:
    """Wrap a function: yield its frame with the checks to the IO manager, and yield results."""

    @functools.wraps(function)
    def compute(*args: Any, **inputs: Any) -> Iterator[Any]:
        value, fields = function(*args, **inputs), {}
        if isinstance(value, dg.MaterializeResult | dg.Output):
            names = ("metadata", "data_version", "tags", "check_results")
            fields = {name: getattr(value, name) for name in names if hasattr(value, name)}
            value = value.value
        if fields and isinstance(value, type):  # Dagster's mark of a result without a value
            yield dg.MaterializeResult(**fields)
            yield from results_without_rows(checks)
            return
        frame = AuditedFrame(frame=value, checks=checks)
        yield dg.MaterializeResult(value=frame, **fields)
        if frame.results is None:
            raise InvalidInputError(
                f"The checks of '{function.__name__}' were not asked: its IO manager is none of "
                "PaimonIOManager. Set io_manager_key to the resource that is one.",
                kind="io-manager",
            )
        yield from frame.results

    return compute


@contextmanager
def reporting_checks(context: dg.OutputContext) -> Iterator[None]:
    """Report the check results of a batch that is rejected inside; the error is raised again."""
    try:
        yield
    except BatchRefusedError as refusal:
        step = context.step_context
        for result in refusal.results:
            dg.DagsterEvent.asset_check_evaluation(step, result.to_asset_check_evaluation(step))
        raise


def reporting_refusals(
    compute: Callable[..., dg.MaterializeResult[Any]],
) -> Callable[..., Iterator[dg.AssetCheckResult | dg.MaterializeResult[Any]]]:
    """Wrap a compute function, so that a refused batch shows the results of its checks, too."""

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
