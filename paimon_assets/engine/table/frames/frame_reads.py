"""The results of a read: Arrow, pandas, polars, duckdb, Spark, a stream, a dataset."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa

from paimon_assets.engine.contract.executor import Executor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.table.frames.frames import to_lazy, to_pandas


class FrameResults(ABC):
    """Rows, as every frame that holds them. All is made of `to_reader`."""

    __slots__ = ()

    @abstractmethod
    def to_reader(self, executor: Executor[Any] | None = None) -> pa.RecordBatchReader:
        """Plan, and read in bounded memory."""

    def to_arrow(self, executor: Executor[Any] | None = None) -> pa.Table:
        """Plan, and read everything into memory."""
        return self.to_reader(executor).read_all()

    def to_batches(self, executor: Executor[Any] | None = None) -> Iterator[pa.RecordBatch]:
        """Plan, and yield batches in bounded memory."""
        with self.to_reader(executor) as reader:
            yield from reader

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the rows over by Arrow's C interface: whoever takes Arrow takes a read."""
        reader: Any = self.to_reader()
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def to_pandas(self, executor: Executor[Any] | None = None) -> Any:
        """Read into a pandas DataFrame; numbers with gaps get pandas' own nullable types."""
        library("pandas")
        return to_pandas(self.to_arrow(executor))

    def to_polars(self, executor: Executor[Any] | None = None) -> Any:
        """Read into a polars DataFrame."""
        return library("polars").from_arrow(self.to_arrow(executor))


class FrameReads(FrameResults):
    """A read, also as a lazy source that later asks for some columns and rows."""

    __slots__ = ()

    @abstractmethod
    def narrowed(
        self,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        executor: Executor[Any] | None = None,
    ) -> pa.RecordBatchReader:
        """Read some columns, and at least the rows for which a filter is true."""

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The columns, without planning."""

    def scan_polars(self) -> Any:
        """Return a polars LazyFrame; its query's columns, filters and limit reach the read.

        It is planned for each `collect`: a moment of this read holds for all of them.
        """
        library("polars")
        return to_lazy(self.narrowed, self.arrow_schema)

    def to_dataset(self) -> Any:
        """Return a `pyarrow.dataset.Dataset`; columns and filters of its scans reach the read."""
        module = importlib.import_module("paimon_assets.engine.table.frames.arrow_dataset")
        return module.ScanDataset(self.arrow_schema, self.narrowed)

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return a duckdb relation; columns and filters of its query reach the read."""
        return (connection or library("duckdb")).from_arrow(self.to_dataset())

    def to_spark(self, session: Any) -> Any:
        """Plan now, and return a lazy Spark DataFrame (`paimon_assets.spark.to_spark`)."""
        module = importlib.import_module("paimon_assets.spark.dataframes.tables")
        return module.to_spark(self, session)


def library(name: str) -> ModuleType:
    """Load a library of frames."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            f"The package '{error.name}' is not installed: install paimon-assets[{name}].",
            kind="library-missing",
            details={"package": error.name},
        ) from error
