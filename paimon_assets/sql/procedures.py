"""CALL: operations under Paimon's names; parameters and their types are those of the functions.

Source: `org.apache.paimon.spark.procedure`. Times without an offset are UTC.
"""

import datetime as dt
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import NoneType
from typing import Any, get_args

import pyarrow as pa

from paimon_assets.engine.add_ons import OPERATIONS, JobReport
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.options.all_options import parse_duration_ms, parse_instant_ms
from paimon_assets.engine.spec.types.literals import Literal
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.api import TableCatalog
from paimon_assets.engine.table.system.metadata import answer, texts
from paimon_assets.engine.table.table import Table
from paimon_assets.sql import operations as ops
from paimon_assets.sql.statements import Call, Names
from paimon_assets.sql.words import Words

_ADDED = list(map(import_module, OPERATIONS))
_ROLLED_BACK = "previous_snapshot_id BIGINT, current_snapshot_id BIGINT"
_SHOWN: Mapping[Callable[..., Any], Callable[[Any], pa.Table]] = {
    ops.compact_database: lambda count: texts("result", [f"compacted {counted(count, 'table')}"]),
    ops.expire_snapshots: lambda count: answer("deleted_snapshots_count INT", [[count]]),
    ops.expire_partitions: lambda gone: texts("expired_partitions", gone),
    ops.create_tag_from_timestamp: lambda tag: answer(
        "tagName STRING, snapshot BIGINT, commit_time BIGINT",
        [[tag.name, tag.snapshot.id, tag.snapshot.time_millis]],
    ),
    ops.expire_tags: lambda gone: texts("expired_tags", gone),
    ops.rollback: lambda ids: answer(_ROLLED_BACK, [ids]),
    ops.rollback_to_timestamp: lambda ids: answer(_ROLLED_BACK, [ids]),
    ops.remove_orphan_files: lambda reports: answer(
        "deletedFileCount BIGINT, deletedFileTotalLenInBytes BIGINT",
        [[sum(one.files for one in reports), sum(one.total_bytes for one in reports)]],
    ),
    **{operation: show for module in _ADDED for operation, show in module.SHOWN.items()},
}
"""Operation → the rows that its CALL shows; all not listed show one, TRUE."""
JOB_REPORTS: Mapping[Callable[..., Any], Callable[[Any], JobReport]] = {
    operation: report for module in _ADDED for operation, report in module.REPORTS.items()
}
"""Operation → the report of a job on its result."""
PROCEDURES: Mapping[str, Callable[..., Any]] = {
    name: operation
    for module in (ops, *_ADDED)
    for name, operation in vars(module).items()
    if inspect.isfunction(operation)
    and operation.__module__ == module.__name__
    and not name.startswith("_")
}
"""Name → operation."""


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in _names(text):
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidInputError(f"'{part}' is not KEY=VALUE.", kind="procedure")
        pairs[key.strip()] = value.strip().strip("\"'")
    return pairs


_PARSERS: Mapping[Any, Callable[[str], Any]] = {
    bool: lambda text: text.lower() == "true",
    dt.timedelta: lambda text: dt.timedelta(milliseconds=parse_duration_ms(text)),
    ops.Millis: parse_instant_ms,
    Sequence[str]: _names,
    ops.Options: _pairs,
    ops.Specs: lambda text: list(map(_pairs, text.split(";"))),
    re.Pattern[str]: re.compile,
    **dict.fromkeys((Table, Sequence[Table], Identifier), str),
}
"""Type of a parameter → makes its value of a text; the rest take it as they are, as enumerations
do. Tables are opened by name afterwards."""


def parameters_of(operation: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that a CALL gives an operation, in order."""
    parameters = inspect.signature(operation).parameters.values()
    return [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]


def type_of(parameter: inspect.Parameter) -> Any:
    """Return the type of a parameter without None."""
    types = get_args(parameter.annotation)
    return types[0] if NoneType in types else parameter.annotation


def parse_value(parameter: inspect.Parameter, value: Literal) -> Any:
    """Return a literal in the type of a parameter.

    Raises:
        InvalidInputError: It does not fit the type (kind `procedure`).
    """
    name, default, kind = parameter.name, parameter.default, type_of(parameter)
    if value is None or (value == "" and (kind is str or default is not None)):
        return default
    text = str(value)
    if kind is int and (isinstance(value, bool) or not text.strip().isdecimal()):
        raise InvalidInputError(f"'{name}' is a number, not {value!r}.", kind="procedure")
    try:
        return _PARSERS.get(kind, kind)(text)
    except (ValueError, OverflowError, re.error) as error:
        raise InvalidInputError(
            f"'{name}' cannot be '{text}': {error}.", kind="procedure"
        ) from error


def call(
    catalog: TableCatalog, statement: Call, names: Names, executor: CountingExecutor[Any]
) -> pa.Table:
    operation = PROCEDURES.get(statement.procedure)
    if operation is None:
        raise UnsupportedFeatureError(
            f"CALL sys.{statement.procedure} is not taken; there are"
            f" {', '.join(sorted(PROCEDURES))}.",
            kind="procedure-unsupported",
            procedure=statement.procedure,
        )
    literals = _by_name(statement, parameters_of(operation))
    return result_rows(operation, run_operation(operation, catalog, literals, names, executor))


def run_operation(
    operation: Callable[..., Any],
    catalog: TableCatalog,
    literals: Mapping[str, Literal],
    names: Names,
    executor: CountingExecutor[Any],
) -> Any:
    """Return the result of an operation, of which parameters are given as literals, by name."""
    parameters = parameters_of(operation)
    for one in parameters:
        if one.default is one.empty and literals.get(one.name) in (None, ""):
            known = ", ".join(each.name for each in parameters)
            message = f"{operation.__name__} needs '{one.name}'; it takes {known}."
            raise InvalidInputError(message, kind="procedure")
    values = {one.name: parse_value(one, literals.get(one.name)) for one in parameters}
    for name, kind in ((one.name, type_of(one)) for one in parameters):
        text = values[name]
        if kind is Identifier:
            values[name] = names.identifier(Words(text=text).path("a view"))
        elif kind == Sequence[Table] and text.endswith(".*"):
            tables = [Identifier(text[:-2], table) for table in catalog.list_tables(text[:-2])]
            values[name] = list(map(catalog.get_table, tables))
        elif kind in (Table, Sequence[Table]):
            path = names.identifier(Words(text=text).path("a table"))
            table = catalog.get_table(path, options=values.get("options") or None)
            values[name] = table if kind is Table else [table]
    given = {"catalog": catalog, "executor": executor}
    asked = inspect.getfullargspec(operation).kwonlyargs
    return operation(**values, **{name: given[name] for name in asked})


def result_rows(operation: Callable[..., Any], result: Any) -> pa.Table:
    """Return the rows that a CALL shows of the result of an operation."""
    return _SHOWN[operation](result) if operation in _SHOWN else answer("result BOOLEAN", [[True]])


def _by_name(statement: Call, parameters: list[inspect.Parameter]) -> dict[str, Literal]:
    places = [one.name for one in parameters]
    known = {str(at): name for at, name in enumerate(places)}
    known |= {name.lower(): name for name in places}
    literals: dict[str, Literal] = {}
    for key, value in statement.arguments.items():
        name = known.get(key.lower())
        if name is None or name in literals:
            message = f"{statement.procedure} takes {', '.join(places)}, each once; not '{key}'."
            raise InvalidInputError(message, kind="procedure")
        literals[name] = value
    return literals
