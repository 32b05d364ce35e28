"""Tables that another process writes while a step waits for it (Dagster Pipes).

    step ─▶ process, with commit user and properties ─▶ its own commit ─▶ a message
                                                                          └▶ the materialization

The process needs `dagster_pipes` alone, and any writer of Paimon. What it says of each table is one
message:

    with open_dagster_pipes() as pipes:
        id = ...   # writes, as pipes.get_extra("paimon/commit_user"), once
        pipes.report_custom_message({"paimon/table": "shop.orders", "paimon/snapshot_id": id})
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from paimon_assets.assets.failures import dagster_failures
from paimon_assets.assets.metadata import SNAPSHOT_ID, Metadata, snapshot_or_none
from paimon_assets.assets.provenance import step_of_asset
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.tables.table_write import NOTHING_WRITTEN, result_of
from paimon_assets.assets.translator import identifier_of, identifier_of_spec
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, NotFoundError

TABLE = "paimon/table"
"""Of a message: which table it is about. Next to it is `paimon/snapshot_id`, None where nothing was
written; everything else of the message becomes metadata."""
COMMIT_USER = "paimon/commit_user"
PROPERTIES = "paimon/properties"

Context = dg.AssetExecutionContext


class PaimonPipesClient(dg.ConfigurableResource):  # type: ignore[type-arg]  # because it provides itself
    """Runs a process that writes tables, by any Pipes client; a subprocess by default.

    The process gets two extras: `paimon/commit_user`, the same for every retry of the step, and
    `paimon/properties`, which lead from a snapshot to its run.

    >>> @dg.asset(key=["shop", "orders"])
    ... def orders(context: dg.AssetExecutionContext, pipes: PaimonPipesClient):
    ...     return pipes.run(context=context, command=["spark-submit", "orders.py"]).get_result()
    """

    paimon: PaimonCatalogResource

    def run(
        self,
        *,
        context: Context,
        client: dg.PipesClient | None = None,
        extras: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> "SnapshotsReported":
        """Run the process, and wait for it.

        Args:
            context: Of the asset.
            client: Who runs it, such as a Pipes client of Kubernetes.
            extras: For the process, beside ours.
            **options: For the client: of a subprocess `command`, `env`, `cwd`.

        Raises:
            DagsterPipesExecutionError: The process failed.
        """
        step = step_of_asset(context)
        code_version = next(
            (spec.code_version for spec in context.assets_def.specs if spec.code_version), None
        )
        ours = {COMMIT_USER: step.commit_user, PROPERTIES: dict(step.properties(code_version))}
        runner: Any = client or dg.PipesSubprocessClient()
        invocation = runner.run(context=context, extras={**ours, **(extras or {})}, **options)
        return SnapshotsReported(context=context, paimon=self.paimon, invocation=invocation)


@dataclass(frozen=True, kw_only=True)
class SnapshotsReported:
    """The report of a process: the snapshots it made."""

    context: Context
    paimon: PaimonCatalogResource
    invocation: Any
    """A `PipesClientCompletedInvocation`."""

    def get_result(self) -> dg.MaterializeResult[Any]:
        """Return the materialization of the one asset the step is about."""
        results = self.get_results()
        if len(results) == 1 and isinstance(results[0], dg.MaterializeResult):
            return results[0]
        raise dg.Failure(
            f"The step has {len(results)} results: `yield from` its get_results().",
            allow_retries=False,
        )

    def get_results(self) -> list[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
        """Return a materialization for each asset of the step, as table assets have them.

        What the process reported of an asset itself is added to it; a check of an asset goes to its
        materialization.
        """
        reported = list(self.invocation.get_results(implicit_materializations=False))
        selected = self.context.selected_asset_keys
        specs = [spec for spec in self.context.assets_def.specs if spec.key in selected]
        tables = {identifier_of_spec(spec): spec.key for spec in specs}
        messages = self._messages(tables)
        return [
            self._result(key, identifier, messages[identifier], reported)
            for identifier, key in tables.items()
        ]

    def _result(
        self,
        key: dg.AssetKey,
        identifier: Identifier,
        message: Mapping[str, Any],
        reported: Sequence[dg.MaterializeResult[Any] | dg.AssetCheckResult],
    ) -> dg.MaterializeResult[Any]:
        metadata: Metadata = {}
        checks: list[dg.AssetCheckResult] = []
        for each in reported:
            if (each.asset_key or self.context.asset_key) != key:
                continue
            if isinstance(each, dg.AssetCheckResult):
                checks.append(each)
            else:
                metadata |= each.metadata or {}
                checks += each.check_results or ()
        metadata |= {
            name: value for name, value in message.items() if name not in {TABLE, SNAPSHOT_ID}
        }
        number = message.get(SNAPSHOT_ID)
        snapshot_id = None if number is None else int(number)
        with dagster_failures(identifier, self.context):
            table = self.paimon.catalog().get_table(identifier)
            if snapshot_id is None:
                metadata = {**NOTHING_WRITTEN, **metadata}
            elif snapshot_or_none(table, snapshot_id) is None:
                raise NotFoundError(
                    f"The process reported snapshot {snapshot_id} of table '{identifier}', which is"
                    " not there. Report the id of the snapshot that the commit returned.",
                    kind="pipes-snapshot",
                    details={"table": str(identifier), "snapshot": snapshot_id},
                )
            result = result_of(
                table, snapshot_id, metadata, checks, rows_shown=self.paimon.rows_shown
            )
        return result._replace(asset_key=key)

    def _messages(
        self, tables: Mapping[Identifier, dg.AssetKey]
    ) -> dict[Identifier, Mapping[str, Any]]:
        messages: dict[Identifier, Mapping[str, Any]] = {}
        for message in self.invocation.get_custom_messages():
            if isinstance(message, Mapping) and TABLE in message:
                messages[identifier_of(str(message[TABLE]))] = message
        [first, *_] = tables
        with dagster_failures(first, self.context):
            for identifier in messages.keys() - tables.keys():
                raise _wrong(f"reported table '{identifier}', which is none of the step's", tables)
            for identifier in tables.keys() - messages.keys():
                raise _wrong(f"reported no snapshot of table '{identifier}'", tables)
        return messages


def _wrong(text: str, tables: Mapping[Identifier, dg.AssetKey]) -> InvalidInputError:
    listed = ", ".join(map(str, tables))
    return InvalidInputError(
        f"The process {text}. It reports each of {listed} by "
        f'report_custom_message({{"{TABLE}": …, "{SNAPSHOT_ID}": …}}), the id None where it wrote '
        "nothing.",
        kind="pipes-message",
    )
