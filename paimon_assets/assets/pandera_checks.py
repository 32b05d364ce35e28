"""Pandera schemas as asset checks: values are judged by pandera, batch by batch.

Before a commit the batch of the run is checked, after it the rows of the table; then only the run's
partitions, if the asset has some. Only the columns the schema names are read, and memory is bounded
by one batch. Types and keys are not pandera's: see `build_schema_check`, `build_unique_key_check`.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, overload

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from paimon_assets.assets.check_run import CheckOptions, CheckRun, define_check
from paimon_assets.assets.failures import naming_arguments
from paimon_assets.assets.metadata import Metadata, grid
from paimon_assets.assets.tables.audit import BLOCKING, Batch, BatchCheck, Verdict
from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.words import counted, plain_sample
from paimon_assets.engine.table.read.read_builder import ReadBuilder

_SET_BY_PANDERA = ("PYARROW_IGNORE_TIMEZONE", "SPARK_LOCAL_IP")


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Restore the environment variables that importing pandera sets."""
    before = {name: os.environ.get(name) for name in _SET_BY_PANDERA}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


with _environment_kept():
    from pandera.errors import SchemaErrors
    from pandera.pyarrow import DataFrameModel, DataFrameSchema

PanderaSchema = DataFrameSchema | type[DataFrameModel]

_NAME = "pandera"
_EXAMPLES = 5
_LINES = 50
_OF_COLUMNS = {
    "column_in_dataframe": "the column is missing",
    "column_in_schema": "the schema does not name it",
}
"""Checks of pandera whose failure cases are names of columns → meaning."""
_NOT_BLOCKING = CheckOptions()
_OTHER = re.compile(r"[^A-Za-z0-9_]")


@overload
def build_pandera_checks(
    asset: dg.AssetsDefinition,
    schema: PanderaSchema,
    *,
    when: Literal["after_commit"] = "after_commit",
    options: CheckOptions | None = None,
) -> dg.AssetChecksDefinition: ...


@overload
def build_pandera_checks(
    asset: None,
    schema: PanderaSchema,
    *,
    when: Literal["before_commit"],
    options: CheckOptions | None = None,
) -> list[BatchCheck]: ...


@naming_arguments
def build_pandera_checks(
    asset: dg.AssetsDefinition | None,
    schema: PanderaSchema,
    *,
    when: Literal["before_commit", "after_commit"] = "after_commit",
    options: CheckOptions | None = None,
) -> dg.AssetChecksDefinition | list[BatchCheck]:
    """Make a pandera schema the check of a table.

    >>> import pandera.pyarrow as pa
    >>> schema = pa.DataFrameSchema({"n": pa.Column(None, pa.Check.ge(0))}, name="amounts")
    >>> check = build_pandera_checks(orders, schema)

    The schema is one of `pandera.pyarrow`. Columns it does not name are not read, so a check of the
    whole frame sees the named columns only; with `strict=True` it sees all. A column whose type
    pandera does not know (decimals, binary, times, nested types) is named without a type:
    `Column(None, checks)`.

    Args:
        asset: A table asset; None before a commit.
        schema: Rules for the values.
        when: `after_commit` is a check of its own, run from the UI or after the asset.
            `before_commit` checks each batch before any reader sees it: pass the result to the
            asset, as `before_commit=build_pandera_checks(None, schema, when="before_commit")`.
        options: Name, severity, blocking, executor. Before a commit it blocks by default: a batch
            that fails is not committed.

    Raises:
        InvalidInputError: The schema is of another library, or asks for unique values, which cannot
            be judged batch by batch; or `asset` and `when` do not go together.

    Cost:
        Reads the schema's columns once; memory of one batch and a line a kind of failure.
    """
    schema = _check(schema)
    name = _OTHER.sub("_", schema.name or "") or _NAME
    satisfies = f"satisfies a pandera schema on {', '.join(schema.columns)}."
    if when == "before_commit":
        if asset is not None:
            raise InvalidInputError(
                "Checks before a commit are part of the asset: hand them to it as before_commit=, "
                "and leave asset None here.",
                kind="check-asset",
            )

        def judge(batch: Batch) -> Verdict:
            return _judge(schema, batch.read, batch.executor, "the batch", show=batch.shows_values)

        description = f"Checks that each batch, before it is committed, {satisfies}"
        check = BatchCheck(
            name=name, evaluate=judge, description=description, options=options or BLOCKING
        )
        return [check]
    if asset is None:
        raise InvalidInputError(
            "A check after a commit needs the asset it is of.", kind="check-asset"
        )

    def evaluate(run: CheckRun) -> dg.AssetCheckResult:
        # Also without `by_partition` it looks at the run's partitions alone.
        read, partitions, where = run.table.new_read_builder(), run.partitions(), "the table"
        if partitions is not None:
            read = read.with_filter(partitions.predicate())
            where = f"partition '{partitions.label}'"
        verdict = _judge(schema, read, run.executor(), where, show=run.shows_values)
        return run.result(
            passed=verdict.passed, description=verdict.description, metadata=verdict.metadata
        )

    text = f"Checks that the table {satisfies}"
    return define_check(asset, name, text, options or _NOT_BLOCKING, evaluate)


def _check(schema: PanderaSchema) -> DataFrameSchema:
    if isinstance(schema, type) and issubclass(schema, DataFrameModel):
        schema = schema.to_schema()
    if not isinstance(schema, DataFrameSchema):
        raise InvalidInputError(
            f"The schema is a {type(schema).__module__}.{type(schema).__name__}; expected a "
            "DataFrameSchema or DataFrameModel of pandera.pyarrow.",
            kind="check-schema",
        )
    unique = [name for name, column in schema.columns.items() if column.unique]
    if unique or schema.unique:
        raise InvalidInputError(
            f"The schema asks for unique values ({', '.join(unique or schema.unique)}): values are "
            "judged batch by batch; use build_unique_key_check for them.",
            kind="check-schema",
        )
    return schema


def _judge(
    schema: DataFrameSchema, read: ReadBuilder, executor: Executor[Any], where: str, *, show: bool
) -> Verdict:
    tally = _Tally(show=show)
    names = _columns_of(schema, [item.name for item in read.fields()])
    with read.with_columns(names).to_reader(executor) as reader:
        # Failures of the columns themselves are reported once, not once a batch.
        tally.validate(schema, reader.schema.empty_table())
        if not tally.lines:
            for batch in reader:
                tally.validate(schema, pa.Table.from_batches([batch]))
    return Verdict(passed=not tally.lines, description=tally.text(where), metadata=tally.metadata())


def _columns_of(schema: DataFrameSchema, names: Sequence[str]) -> Sequence[str]:
    if schema.strict is True:
        return names
    patterns = [key for key, column in schema.columns.items() if column.regex]
    chosen = [
        name
        for name in names
        if name in schema.columns or any(re.match(text, name) for text in patterns)
    ]
    return chosen or names[:1]  # without a column there would be no rows


class _Line(Struct):
    failures: int = 0
    examples: list[str] = field(default_factory=list)


class _Tally(Struct):
    """Failures by column and check, over batches."""

    show: bool
    rows: int = 0
    lines: dict[tuple[str, str], _Line] = field(default_factory=dict)

    def validate(self, schema: DataFrameSchema, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        try:
            schema.validate(rows, lazy=True)
        except SchemaErrors as error:
            cases = error.failure_cases
            # Pandera returns a frame of one of its backends.
            self._add(cases if isinstance(cases, pa.Table) else cases.to_arrow())

    def _add(self, cases: pa.Table) -> None:
        values = pc.CountOptions(mode="all")
        grouped = cases.group_by(["column", "check"], use_threads=False).aggregate(
            [([], "count_all"), ("failure_case", "distinct", values)]
        )
        examples: Any = pc.list_slice(
            grouped["failure_case_distinct"].combine_chunks(), 0, _EXAMPLES
        )
        kinds = grouped.select(["column", "check", "count_all"]).to_pylist()
        for kind, shown in zip(kinds, examples.to_pylist(), strict=True):
            column, check = str(kind["column"]), str(kind["check"])
            if check in _OF_COLUMNS:  # pandera calls the schema the column
                for name in map(str, shown):
                    self.lines[name, check] = _Line(1, [_OF_COLUMNS[check]])
                continue
            line = self.lines.setdefault((column, check), _Line())
            line.failures += kind["count_all"]
            is_value = self.rows > 0  # without rows it is a type
            new = (plain_sample(value, show=self.show or not is_value) for value in shown)
            line.examples += [value for value in new if value not in line.examples]
            del line.examples[_EXAMPLES:]

    def text(self, where: str) -> str:
        """Return the failures in one sentence, the worst first."""
        if not self.lines:
            return f"{counted(self.rows, 'row')} of {where}: no failure."
        (column, check), worst = self._sort()[0]
        further = len(self.lines) - 1
        kinds = "kind" if further == 1 else "kinds"
        more = f", and {further} other {kinds} of failure" if further else ""
        if not self.rows:
            return f"Column '{column}' of {where} fails {check}: {worst.examples[0]}{more}."
        return (
            f"{worst.failures:,} of {counted(self.rows, 'row')} of {where} failed {check} in "
            f"column '{column}', such as {', '.join(worst.examples[:3])}{more}."
        )

    def metadata(self) -> Metadata:
        metadata: Metadata = {
            "paimon/rows": self.rows,
            "paimon/failures": sum(line.failures for line in self.lines.values()),
        }
        if self.lines:
            metadata["paimon/failure_table"] = grid(
                {
                    "column": column,
                    "check": check,
                    "failures": line.failures,
                    "examples": ", ".join(line.examples),
                }
                for (column, check), line in self._sort()[:_LINES]
            )
        return metadata

    def _sort(self) -> list[tuple[tuple[str, str], _Line]]:
        return sorted(self.lines.items(), key=lambda item: (-item[1].failures, item[0]))
