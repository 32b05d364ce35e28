"""An asset of `PaimonIOManager` whose batches are judged before they count.

    function ─▶ frame, with its checks ─▶ IO manager: files ─▶ branch ─▶ checks ─▶ commit
                        └── results ◀──────────────────────────────────────┘

What a check means, and what becomes of a batch it keeps out, is said in `assets.tables.audit`.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from paimon_assets.assets.metadata import Metadata
from paimon_assets.assets.tables.audit import BatchCheck, results_without_rows
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.frames.frames import Frame
from paimon_assets.engine.table.write.staged_batch import BatchRefusedError


@dataclass(slots=True, kw_only=True)
class AuditedFrame:
    """A frame on its way to the IO manager, and the checks that judge it there."""

    frame: Frame | None
    checks: Sequence[BatchCheck] = ()
    results: Sequence[dg.AssetCheckResult] | None = None
    """What the checks said; None until the IO manager asked them."""
    lineage: Metadata = field(default_factory=dict)
    """What the frame says of where its columns come from."""


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
        asset: dg.AssetsDefinition = dg.asset(**settings)(_audited(function, before_commit))
        return asset

    return decorate


def _key_of(function: Callable[..., Any], options: dict[str, Any]) -> dg.AssetKey:
    if "key" in options:
        return dg.AssetKey.from_coercible(options["key"])
    name = dg.AssetKey([options.get("name", function.__name__)])
    return name.with_prefix(options["key_prefix"]) if "key_prefix" in options else name


def _audited(
    function: Callable[..., Any], checks: Sequence[BatchCheck]
) -> Callable[..., Iterator[Any]]:
    """Let a function hand its frame to the IO manager, and report what the checks say there."""

    @functools.wraps(function)
    def compute(*args: Any, **inputs: Any) -> Iterator[Any]:
        returned = function(*args, **inputs)
        result_fields: dict[str, Any] = {}
        if isinstance(returned, dg.MaterializeResult | dg.Output):
            result_fields = {"metadata": returned.metadata, "data_version": returned.data_version}
            result_fields["tags"] = returned.tags
        if isinstance(returned, dg.MaterializeResult):
            result_fields["check_results"] = returned.check_results
        if result_fields:
            returned = returned.value
        if result_fields and isinstance(
            returned, type
        ):  # Dagster's mark of a result without a value
            yield dg.MaterializeResult(**result_fields)
            yield from results_without_rows(checks)
            return
        handed = AuditedFrame(frame=returned, checks=checks)
        yield dg.MaterializeResult(value=handed, **result_fields)
        if handed.results is None:
            raise InvalidInputError(
                f"The checks of '{function.__name__}' were not asked: its IO manager is none of "
                "PaimonIOManager. Set io_manager_key to the resource that is one.",
                kind="io-manager",
            )
        yield from handed.results

    return compute


@contextmanager
def reporting_checks(context: dg.OutputContext) -> Iterator[None]:
    """Report to Dagster what the checks said, also when the block ends with a batch kept out.

    Raises:
        BatchRefusedError: As it came; the function that made the batch does not run on.
    """
    try:
        yield
    except BatchRefusedError as refusal:
        step = context.step_context
        for result in refusal.results:
            dg.DagsterEvent.asset_check_evaluation(step, result.to_asset_check_evaluation(step))
        raise
