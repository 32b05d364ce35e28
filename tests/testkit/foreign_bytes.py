"""Bytes from outside through every parser of foreign files, in a child: they may end the process.

Call `ends_well` with cases; the child prints the outcome of each, and a death names its case.
"""

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_assets import PaimonError, Schema, SegmentSource, open_catalog
from paimon_assets.cdc.kafka.fetching import Fetched
from paimon_assets.cdc.kafka.messages import rows as rows_of_topic
from paimon_assets.cdc.kafka.topics import OffsetRange
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.codec.row_files import RowFormat, naming, open_rows
from paimon_assets.engine.data.format.external_files import FileKind, open_external_file
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.predicate.predicate import IsNull

COLUMNS = {"id": "BIGINT", "v": "STRING"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A file, and the columns of the table that takes it."""

    file_format: str
    data: bytes
    columns: tuple[tuple[str, str], ...] = tuple(COLUMNS.items())
    options: tuple[tuple[str, str], ...] = ()
    is_damaged: bool = False
    """Damage inside of a file with a footer is found by reads alone."""

    def to_json(self) -> str:
        plain = (self.file_format, self.data.hex(), self.columns, self.options, self.is_damaged)
        return json.dumps(plain)

    @staticmethod
    def of(text: str) -> "Case":
        file_format, data, columns, options, is_damaged = json.loads(text)
        pairs = (tuple((a, b) for a, b in each) for each in (columns, options))
        return Case(file_format=file_format, data=bytes.fromhex(data),
                    columns=next(pairs), options=next(pairs), is_damaged=is_damaged)  # fmt: skip


def outcomes(cases: Sequence[Case]) -> list[str]:
    """Return the outcome of each reader and case: rows, or the class and kind of an error.

    Raises:
        AssertionError: The child died, or an error is no `PaimonError`; names the case.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cases")
        file.write_text("\n".join(case.to_json() for case in cases))
        child = subprocess.run(
            [sys.executable, "-m", "tests.testkit.foreign_bytes", str(file)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    lines = child.stdout.splitlines()
    assert child.returncode == 0, (child.returncode, lines[-1:], child.stderr[-3000:])
    return lines


def _ways(case: Case, folder: Path) -> Iterator[tuple[str, Callable[[], int]]]:
    path = folder / "in" / f"1.{case.file_format}"
    path.parent.mkdir()
    path.write_bytes(case.data)
    schema = to_arrow_schema(Schema.of(dict(case.columns)).fields)
    options = dict(case.options)

    def segment() -> int:
        catalog = open_catalog(str(folder / "w"))
        catalog.create_database("d")
        table = catalog.create_table("d.t", Schema.of(dict(case.columns)))
        source = SegmentSource(path=str(path.parent), format=case.file_format, options=options)
        table.segments().add(source)
        try:
            read = table.to_arrow()
            read.validate(full=True)
            for name, _ in case.columns:
                table.to_arrow([name]).validate(full=True)
                counts = [table.count(IsNull(name, negated=negated)) for negated in (False, True)]
                if counts != [read[name].null_count, len(read) - read[name].null_count]:
                    raise ValueError(f"filters of '{name}' find {counts} rows")  # noqa: TRY301
        except Exception as error:
            if case.is_damaged and isinstance(error, PaimonError):
                raise
            raise RuntimeError(f"taken, but not read: {error}") from error
        return int(read.num_rows)

    def landing(columns: pa.Schema | None) -> int:
        kind: Any = FileKind(format=case.file_format, options=options)  # type: ignore[arg-type]
        with open_external_file(LocalFileIO(), str(path), kind, columns) as opened:
            return sum(batch.num_rows for batch in opened.batches)

    def plain(columns: pa.Schema | None) -> int:
        row_format = RowFormat(case.file_format)
        with naming(str(path), row_format), pa.OSFile(str(path), "rb") as file:
            return sum(batch.num_rows for batch in open_rows(file, row_format, columns).batches)

    def topic() -> int:
        records = pa.table(
            {"offset": [0, 1], "value": pa.array([case.data, b'{"id": 1}'], pa.binary())}
        )
        span = OffsetRange(topic="t", partition=0, start=0, end=2)
        fetched = Fetched(range=span, records=records)
        return sum(batch.num_rows for batch in rows_of_topic(fetched, schema, {}))

    if case.file_format != "arrow":
        yield "segment", segment
    if case.file_format != "text":
        yield "landing", lambda: landing(schema)
        yield "inferred", lambda: landing(None)
    if case.file_format in ("arrow", "csv"):
        yield "rows", lambda: plain(schema)
        yield "rows inferred", lambda: plain(None)
    if case.file_format == "json":
        yield "topic", topic


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _run(cases: Sequence[str]) -> int:
    failures = 0
    for number, text in enumerate(cases):
        _say(f"case {number} {text[:200]}")
        with tempfile.TemporaryDirectory() as folder:
            for way, attempt in _ways(Case.of(text), Path(folder)):
                try:
                    outcome = f"{attempt()} rows"
                except PaimonError as error:
                    outcome = f"{type(error).__name__} {error.kind}"
                except BaseException:  # noqa: BLE001 - the faults that the cases look for
                    failures += 1
                    outcome = f"UNTYPED of case {number}"
                    traceback.print_exc()
                    sys.stderr.write(f"{way} {text[:200]}\n")
                _say(f"{way}: {outcome}")
    return failures


if __name__ == "__main__":
    sys.exit(1 if _run(Path(sys.argv[1]).read_text().splitlines()) else 0)
