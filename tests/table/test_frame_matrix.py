"""Every dtype against every column type: a value is stored exactly, or refused; nothing third."""

import csv
import datetime as dt
import io
import os
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, InvalidInputError
from paimon_assets.engine.data.write.input_check import InputCheck
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.table.frames.frames import to_pandas, to_rows
from tests.testkit.frame_matrix import COLUMN_TYPES, POLARS_DTYPES, Source, is_same, sources
from tests.testkit.tables import table_schema

GOLDEN = Path(__file__).parent.parent / "golden" / "frame_matrix.csv"


EXECUTOR = EmbeddedExecutor()
INFERRED = "(inferred)"
TARGETS = (*COLUMN_TYPES, INFERRED)
NO_COLUMNS = TableSchema(id=0, fields=(), highest_field_id=-1)


def check_of(column_type: str) -> InputCheck:
    """Return the check of rows for a table of one column."""
    schema = table_schema({"c": column_type})
    return InputCheck(table="db.t", schema=schema)


def stored_values(source: Source, check: InputCheck | None) -> list[Any]:
    """Return the values that a writer stores; without a check, of a table made for the source."""
    rows = to_rows(source.frame, EXECUTOR, NO_COLUMNS if check is None else check.schema)
    if check is None:
        schema = table_schema(rows.schema)
        check = InputCheck(table="db.t", schema=schema)
    return [
        value
        for batch in rows.to_batches()
        for value in check.conform(batch).column("c").to_pylist()
    ]


def outcome(source: Source, check: InputCheck | None) -> str:
    """Return `stored`, `refused`, or the fault."""
    try:
        found = stored_values(source, check)
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
            found = [counts[library, text, result] for result in ("stored", "refused")]
            lines.writerow([library, text, *found])
    return out.getvalue()


def test_matrix_has_every_polars_dtype() -> None:
    known = {
        dtype
        for dtype in vars(pl.datatypes).values()
        if isinstance(dtype, type) and issubclass(dtype, pl.DataType) and not dtype.__subclasses__()
    }
    missing = {dtype.__name__ for dtype in known - POLARS_DTYPES}
    assert missing <= {"Unknown", "BaseExtension", "Extension", "Map"}


@pytest.mark.skipif(not hasattr(pl, "Map"), reason="polars has maps from 2.1 on")
def test_maps_of_polars_are_stored() -> None:
    maps = [[("a", 1), ("b", None)], None, []]
    column = pa.array(maps, pa.map_(pa.string(), pa.int64()))
    source = Source("polars", "Map", maps, pl.from_arrow(pa.table({"c": column})))
    assert stored_values(source, check_of("MAP<STRING, BIGINT>")) == maps
    assert stored_values(source, None) == maps


def test_matrix_detects_changed_value() -> None:
    assert not is_same(1.9, 1)
    assert not is_same(True, 1)
    assert not is_same(float("nan"), None, nan_is_null=False)
    assert is_same(float("nan"), None)


pd = pytest.importorskip("pandas")

LTZ = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
NEW_YORK = pd.Timestamp("2024-01-01 23:00", tz="America/New_York")


def stored_as(data_type, values, **series):
    """Return the values that a writer stores of a pandas column."""
    frame = pd.DataFrame({"c": pd.Series(values, **series)})
    check = check_of(data_type)
    table = to_rows(frame, EXECUTOR, check.schema)
    return [
        value for batch in table.to_batches() for value in check.conform(batch)["c"].to_pylist()
    ]


@pytest.mark.parametrize(
    ("data_type", "values", "expected"),
    [
        ("DATE", [pd.Timestamp("2024-01-01"), None], [dt.date(2024, 1, 1), None]),
        ("DATE", [dt.date(2024, 1, 1), None], [dt.date(2024, 1, 1), None]),
        ("TIMESTAMP(3)", [pd.Timestamp("2024-01-01 10:00")], [dt.datetime(2024, 1, 1, 10)]),
        (LTZ, [NEW_YORK], [dt.datetime(2024, 1, 2, 4, tzinfo=dt.UTC)]),
        ("TIME(3)", [dt.time(1, 2, 3)], [dt.time(1, 2, 3)]),
        ("FLOAT", [0.5, None], [0.5, None]),
        ("INT", [1.0, None], [1, None]),
        ("DOUBLE", [1, 2], [1.0, 2.0]),
        ("BOOLEAN", [True, None], [True, None]),
        ("BOOLEAN", [None, None], [None, None]),
        ("DECIMAL(5, 2)", [Decimal("1.5"), None], [Decimal("1.50"), None]),
        ("ARRAY<INT>", [[1, None], None], [[1, None], None]),
        ("MAP<STRING NOT NULL, INT>", [[("a", 1)], None], [[("a", 1)], None]),
    ],
)
def test_pandas_values_that_fit_are_taken(data_type, values, expected):
    assert stored_as(data_type, values) == expected


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        ("DATE", [pd.Timestamp("2024-01-01 10:00")]),
        ("DATE", [dt.datetime(2024, 1, 1, 10)]),
        ("DATE", [NEW_YORK]),
        ("TIMESTAMP(3)", [pd.Timestamp("2024-01-01 00:00:00.000001")]),
        ("TIMESTAMP(3)", [NEW_YORK]),
        (LTZ, [pd.Timestamp("2024-01-01")]),
        ("TIME(3)", [dt.time(1, 2, 3, 4)]),
        ("FLOAT", [0.1]),
        ("INT", [1.5]),
        ("INT", [True]),
        ("INT", [2**40]),
        ("BOOLEAN", [1]),
        ("DECIMAL(5, 2)", [Decimal("1.239")]),
        ("DECIMAL(5, 2)", [0.5]),
    ],
)
def test_lossy_pandas_values_are_refused_by_column(data_type, values):
    with pytest.raises(InvalidInputError, match="'c'"):
        stored_as(data_type, values)


def test_arrow_frames_pass_unchanged():
    schema = table_schema({"c": "INT"})
    table = pa.table({"c": pa.array([1], pa.int8())})
    assert to_rows(table, EmbeddedExecutor(), schema) is table


def refused_frame(frame, columns, match):
    """Return the error of a frame for a table with these columns."""
    schema = table_schema(columns)
    with pytest.raises(InvalidInputError, match=match) as raised:
        to_rows(frame, EmbeddedExecutor(), schema)
    return raised.value


@pytest.mark.parametrize("names", [["a", "a"], [1, "1"]])
def test_columns_that_are_one_name_are_refused(names):
    error = refused_frame(
        pd.DataFrame([[1, 2]], columns=names), {"a": "INT", "1": "INT"}, "occur twice"
    )
    assert (error.kind, error.details["column"]) == ("frame-columns", str(names[1]))


def test_lone_surrogate_column_name_is_refused():
    names = pd.Index(["a\udce9"], dtype=object)
    refused_frame(pd.DataFrame([[1]], columns=names), {"a": "INT"}, "half a character")


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
def test_index_level_that_is_also_column_is_refused(keys):
    frame = pd.DataFrame({"a": [1], "b": [2], "c": [3]}).set_index(keys, drop=False)
    error = refused_frame(
        frame, {"a": "INT", "b": "INT", "c": "INT"}, "'a' is a column .* and a level"
    )
    assert error.details["column"] == "a"


def test_index_that_names_columns_counts_as_columns():
    schema = table_schema({"a": "INT", "b": "INT"})
    frame = pd.DataFrame({"b": [2]}, index=pd.Index([1], name="a"))
    assert to_rows(frame, EmbeddedExecutor(), schema).to_pylist() == [{"a": 1, "b": 2}]
    unnamed = pd.DataFrame({"a": [1], "b": [2]}, index=[7])
    assert to_rows(unnamed, EmbeddedExecutor(), schema).to_pylist() == [{"a": 1, "b": 2}]


@pytest.mark.parametrize(
    ("data_type", "values", "row", "shown"),
    [
        ("BIGINT", [3, None, 1.9], 2, "1.9"),
        ("INT", [1, Decimal("7.9")], 1, "Decimal('7.9')"),
        ("TINYINT", [1, 2, 300], 2, "300"),
        ("DECIMAL(5, 2)", [Decimal(1), Decimal("Infinity")], 1, "Decimal('Infinity')"),
        ("STRING", ["a", "\ud800"], 1, "'\\ud800'"),
        ("ARRAY<INT>", [[1], None, [], [2, 1.5]], 3, "1.5"),
        ("ARRAY<STRING>", [["abc"], "abc"], 1, "'abc'"),
        ("MAP<STRING NOT NULL, INT>", [{"a": 1}, {}, {"b": 2, "c": 1.5}], 2, "1.5"),
        ("ROW<a INT>", [{"a": 1}, {"A": 1}], 1, "'A'"),
        ("ARRAY<ROW<a INT>>", [[], [{"a": 1}, {"a": "x"}]], 1, "'x'"),
        ("TIMESTAMP(3)", [pd.Timestamp("2024-01-01"), NEW_YORK], 1, "New_York"),
        ("DATE", [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)], 0, "datetime.date"),
    ],
)
def test_refusal_names_row_and_value(data_type, values, row, shown):
    frame = pd.DataFrame({"c": pd.Series(values, dtype=object)})
    error = refused_frame(frame, {"c": data_type}, "cannot be stored")
    assert (error.kind, error.details["row"]) == ("frame-values", row)
    assert f"row {row} holds" in error.message
    assert shown in error.message


@pytest.mark.parametrize("dtype", ["Int128", "UInt128"])
def test_numbers_arrow_does_not_know_are_refused_by_column(dtype):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"ok": [1], "c": polars.Series([1], dtype=getattr(polars, dtype))})
    error = refused_frame(
        frame, {"ok": "INT", "c": "BIGINT"}, f"'c' of the polars frame is {dtype}"
    )
    assert error.kind == "frame-values"


def test_lists_of_integers_with_gaps_stay_integers_when_read():
    big = 2**53 + 1
    table = pa.table({"c": [[big, None]], "n": [None]})
    assert list(to_pandas(table)["c"][0]) == [big, None]
