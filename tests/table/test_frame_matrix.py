"""Every dtype against every column type: a value is stored exactly, or refused; nothing third."""

import csv
import io
import os
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema, TableSchema, first_table_schema
from paimon_assets.engine.table.frames.frames import to_rows
from tests.testkit.frame_matrix import COLUMN_TYPES, POLARS_DTYPES, Source, is_same, sources

GOLDEN = Path(__file__).parent.parent / "golden" / "frame_matrix.csv"


EXECUTOR = EmbeddedExecutor()
INFERRED = "(inferred)"
TARGETS = (*COLUMN_TYPES, INFERRED)
NO_COLUMNS = TableSchema(id=0, fields=(), highest_field_id=-1)


def check_of(column_type: str) -> InputCheck:
    """What judges the rows of a table of one column."""
    schema = first_table_schema(Schema.of({"c": column_type}), time_millis=0)
    return InputCheck(table="db.t", schema=schema)


def stored(source: Source, check: InputCheck | None) -> list[Any]:
    """What the writer would store of a source; without a table, in one made for its columns."""
    rows = to_rows(source.frame, EXECUTOR, NO_COLUMNS if check is None else check.schema)
    if check is None:
        schema = first_table_schema(Schema.of(rows.schema), time_millis=0)
        check = InputCheck(table="db.t", schema=schema)
    return [
        value
        for batch in rows.to_batches()
        for value in check.conform(batch).column("c").to_pylist()
    ]


def outcome(source: Source, check: InputCheck | None) -> str:
    """`stored`, `refused`, or what went wrong."""
    try:
        found = stored(source, check)
    except InvalidInputError as error:
        return "refused" if error.details["column"] == "c" else f"unnamed: {error}"
    except Exception as error:  # noqa: BLE001 - the third thing that must not be
        return f"{type(error).__name__}: {error}"
    same = len(found) == len(source.given) and all(
        is_same(given, value, nan_is_null=source.nan_is_null)
        for given, value in zip(source.given, found, strict=True)
    )
    return "stored" if same else f"became {found!r}"


@pytest.mark.parametrize("is_set", [False, True])
def test_every_value_is_stored_exactly_or_refused(
    monkeypatch: pytest.MonkeyPatch, is_set: bool
) -> None:
    monkeypatch.delenv("PYARROW_IGNORE_TIMEZONE", raising=False)
    given = list(sources())
    if is_set:  # as importing pandera does
        monkeypatch.setenv("PYARROW_IGNORE_TIMEZONE", "1")
    counts: Counter[tuple[str, str, str]] = Counter()
    wrong = []
    checks = {text: None if text == INFERRED else check_of(text) for text in TARGETS}
    for source in given:
        for text, check in checks.items():
            found = outcome(source, check)
            counts[source.library, text, found] += 1
            if found not in ("stored", "refused"):
                wrong.append(f"{source.library} {source.dtype} {source.given!r} → {text}: {found}")
    assert not wrong, f"{len(wrong)} of {counts.total()}:\n" + "\n".join(wrong)
    summary = _summary(counts)
    if os.environ.get("REGENERATE_GOLDEN"):
        GOLDEN.write_text(summary)
    assert summary == GOLDEN.read_text(), "REGENERATE_GOLDEN=1 writes it anew"


def _summary(counts: Counter[tuple[str, str, str]]) -> str:
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["library", "column type", "stored", "refused"])
    for library in ("pandas", "polars", "arrow"):
        for text in TARGETS:
            found = [counts[library, text, what] for what in ("stored", "refused")]
            lines.writerow([library, text, *found])
    return out.getvalue()


def test_the_matrix_knows_every_dtype_of_polars() -> None:
    known = {
        dtype
        for dtype in vars(pl.datatypes).values()
        if isinstance(dtype, type) and issubclass(dtype, pl.DataType) and not dtype.__subclasses__()
    }
    missing = {dtype.__name__ for dtype in known - POLARS_DTYPES}
    assert missing <= {"Unknown", "BaseExtension", "Extension"}


def test_the_judge_tells_a_changed_value() -> None:
    assert not is_same(1.9, 1)
    assert not is_same(True, 1)
    assert not is_same(float("nan"), None, nan_is_null=False)
    assert is_same(float("nan"), None)
