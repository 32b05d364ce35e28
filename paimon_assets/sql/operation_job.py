"""A job of one operation: any that CALL knows, with its parameters as the form of the Launchpad."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from paimon_assets.assets.failures import dagster_failures, naming_arguments
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.resource import catalog_resource
from paimon_assets.assets.translator import DEFAULT_RESOURCE_KEY
from paimon_assets.engine.add_ons import JobReport
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.words import did_you_mean
from paimon_assets.sql import procedures
from paimon_assets.sql.statements import Names


@naming_arguments
def build_operation_job(
    operation: str,
    name: str = "",
    *,
    suggestion: Mapping[str, Any] = {},
    resource_key: str = DEFAULT_RESOURCE_KEY,
) -> dg.JobDefinition:
    """Return the job of an operation that `CALL sys` knows, such as `promote`, `diff` or `erase`.

    >>> build_operation_job("erase").name
    'erase_job'

    Its step fails if the operation does, and if it reports a failure, as a refused promotion does.

    Args:
        operation: The name of the operation.
        name: The name of the job; `<operation>_job` by default.
        suggestion: Parameters that fill the Launchpad, where `dry_run` is true by default.
        resource_key: The catalog's.

    Raises:
        InvalidInputError: There is no such operation (kind `operation`).
    """
    run = procedures.PROCEDURES.get(operation)
    if run is None:
        hint = did_you_mean(operation, procedures.PROCEDURES)
        known = ", ".join(sorted(procedures.PROCEDURES))
        raise InvalidInputError(
            f"There is no operation '{operation}'.{hint} There are {known}.", kind="operation"
        )
    name, summary = name or f"{operation}_job", (inspect.getdoc(run) or "").partition("\n")[0]
    parameters = procedures.parameters_of(run)
    blank = {one.name: _plain(one)() for one in parameters if one.default is one.empty}
    dry = {one.name: True for one in parameters if one.name == "dry_run"}

    @dg.op(
        name=f"{name}__{operation}",
        description=summary,
        required_resource_keys={resource_key},
        config_schema={one.name: _field(one) for one in parameters},
        tags={"kind": "paimon"},
    )
    def perform(context: dg.OpExecutionContext) -> None:
        paimon = catalog_resource(context, resource_key)
        literals = {
            key: ",".join(value) if isinstance(value, list) else value
            for key, value in context.op_config.items()
        }
        with dagster_failures(_subject(operation, literals), context):
            result = procedures.run_operation(
                run, paimon.catalog(), literals, Names(), paimon.new_executor()
            )
        _report(context, run, result)

    @dg.job(
        name=name,
        description=summary,
        config={"ops": {operation: {"config": {**blank, **dry, **suggestion}}}},
    )
    def job() -> None:
        perform.alias(operation)()

    return job


def _plain(parameter: inspect.Parameter) -> type:
    """Return the type that a form has for a parameter; most are texts, as CALL takes them."""
    kind = procedures.type_of(parameter)
    if kind == Sequence[str]:
        return list
    return kind if kind in (bool, int) else str


def _field(parameter: inspect.Parameter) -> dg.Field:
    plain: Any = _plain(parameter)
    is_required = parameter.default is parameter.empty
    return dg.Field([str] if plain is list else plain, is_required=is_required)


def _subject(operation: str, literals: Mapping[str, Any]) -> Identifier:
    database, _, table = str(literals.get("table", f"sys.{operation}")).rpartition(".")
    return Identifier(database, table)


def _report(context: dg.OpExecutionContext, run: Callable[..., Any], result: Any) -> None:
    """Show the result; raises Failure if it is one."""
    lines = procedures.result_rows(run, result).to_pylist()
    report = procedures.JOB_REPORTS.get(run, lambda _: JobReport())(result)
    metadata: Metadata = {"paimon/result": grid(lines)} if lines else {}
    if report.markdown:
        metadata["paimon/report"] = dg.MetadataValue.md(report.markdown)
    if report.failure:
        raise dg.Failure(report.failure, metadata=metadata, allow_retries=False)
    context.add_output_metadata(metadata)
