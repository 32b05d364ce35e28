"""Lines of landed files that are no rows go to a table of dead letters, each once."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import FormatError, InvalidInputError, Schema
from paimon_assets.assets import (
    BatchCheck,
    FileSource,
    PaimonCatalogResource,
    build_file_ingestion_asset,
)
from paimon_assets.cdc.kafka.fetching import Fetched
from paimon_assets.cdc.kafka.messages import rows
from paimon_assets.cdc.kafka.topics import OffsetRange
from paimon_assets.engine.data.format.text_lines import Rejected
from tests.testkit.asset_tables import failure_text, metadata_of, rows_of, run

SCHEMA = Schema.of({"id": "BIGINT", "note": "VARCHAR(5)", "day": "DATE"}, primary_keys=["id"])
KEY = dg.AssetKey(["s", "t"])
BAD: dict[str, tuple[bytes, ...]] = {
    "csv": (
        b"x,a,2024-01-01", b"1,a", b"1,a,2024-01-01,b", b"1,toolong,2024-01-01", b",a,2024-01-01",
        b"1,a,2024-02-30", b'1,"a,2024-01-01', b'1,a,"2024-01-01', b'"1",a', b"1,\xff,2024-01-01",
    ),
    "json": (
        b'{"id": 1', b"[]", b"null", b"7", b'{"id": 1, "note": "toolong"}', b'{"note": "a"}',
        b'{"id": 1, "day": "2024-02-30"}', b'{"id": 1, "z": 1}', b'{"id": "x"}', b'{"id": 1}}',
        b'{"id": 1} {"id": 2}', b'"', b'{"id": \xff}', b'{"id": 1, "note":', b'"a"}', b"{}",
    ),
}  # fmt: skip
"""Format → lines that are no rows of the table."""


def ingest(
    paimon: PaimonCatalogResource, landing: Path, *, fails: bool = False, **words: Any
) -> dg.ExecuteInProcessResult:
    def evaluate(*_: Any) -> Any:
        raise InvalidInputError("not now", kind="test")

    more: dict[str, Any] = {}
    if fails:
        more = {"before_commit": [BatchCheck(name="broken", evaluate=evaluate)]}
    source = FileSource(folder=str(landing), **words)
    return run(build_file_ingestion_asset("s.t", SCHEMA, source=source, **more), paimon)


def letters_in(paimon: PaimonCatalogResource) -> list[tuple[str, int, str]]:
    rows = rows_of(paimon.catalog().get_table("s.dead"))
    assert all(row["reason"] for row in rows)
    return sorted((row["file"].rpartition("/")[2], row["line"], row["record"]) for row in rows)


def land(rng: random.Random, path: Path, first: int) -> tuple[list[int], list[Any]]:
    """Write a file; return the ids of its rows, and its bad lines with their numbers."""
    file_format = path.name.split(".")[1]
    lines = [b"id,note,day"] if file_format == "csv" else []
    ids, bad = list[int](), list[Any]()
    for number in range(rng.choice([0, 1, 5, 40, 300])):
        draw = rng.random()
        if draw < rng.choice([0.02, 0.3]):
            lines.append(rng.choice(BAD[file_format]))
            bad.append((path.name, len(lines), lines[-1].decode(errors="replace")))
            continue
        if draw > 0.97:
            lines.append(b"")
            continue
        ids.append(first + number)
        note, day = rng.choice([None, "", "a", "ü,'", '"q"']), rng.choice([None, "2024-02-29"])
        if file_format == "csv":
            quoted = "" if note is None else '"' + note.replace('"', '""') + '"'
            lines.append(f"{ids[-1]},{quoted},{day or ''}".encode())
        else:
            members = {"id": ids[-1], "note": note, "day": day}
            lines.append(json.dumps({k: v for k, v in members.items() if v is not None}).encode())
    line_end = rng.choice([b"\n", b"\r\n", b"\r"])
    data = line_end.join(lines) + rng.choice([b"", line_end])
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return ids, bad


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_good_rows_arrive_and_bad_lines_are_dead_letters_once(
    seed: int, landing: Path, paimon: PaimonCatalogResource
) -> None:
    rng = random.Random(seed)  # noqa: S311 (draws)
    file_format = rng.choice(["csv", "json"])
    words: dict[str, Any] = {"format": file_format, "dead_letters": "s.dead"}
    if file_format == "csv" and rng.random() < 0.4:
        words["options"] = {"nullValue": "-", "comment": "#"}
    ids, letters = list[int](), list[Any]()
    for number in range(3):
        before = len(letters)
        for part in range(rng.randrange(1, 4)):
            suffix = rng.choice(["", ".gz"])
            path = landing / f"{number}-{part}.{file_format}{suffix}"
            own, bad = land(rng, path, 1000 * (10 * number + part))
            ids, letters = ids + own, letters + bad
        if rng.random() < 0.5:  # the first try dies after it has read all
            assert not ingest(paimon, landing, fails=True, **words).success
        result = ingest(paimon, landing, **words)
        assert result.success, failure_text(result)
        shown = metadata_of(result, KEY)
        if shown["paimon/files_ingested"]:
            assert shown["paimon/dead_letters"] == len(letters) - before
    table = paimon.catalog().get_table("s.t")
    assert sorted(row["id"] for row in rows_of(table)) == sorted(ids), f"seed {seed}"
    assert (letters_in(paimon) if letters else []) == sorted(letters), f"seed {seed}"


NAMED = [
    (file_format, bad)
    for file_format, lines in BAD.items()
    for bad in lines
    # Without dead letters these are read, or named as columns.
    if bad not in (b'{"id": 1} {"id": 2}', b'{"id": 1, "z": 1}')
]


@pytest.mark.parametrize(("file_format", "bad"), NAMED)
def test_error_without_dead_letters_names_file_line_and_way_out(
    file_format: str, bad: bytes, landing: Path, paimon: PaimonCatalogResource
) -> None:
    good = {"csv": b"id,note,day\n5,a,\n", "json": b'{"id": 5}\n{"id": 6}\n'}[file_format]
    (landing / f"1.{file_format}").write_bytes(good)
    (landing / f"2.{file_format}").write_bytes(good + bad + b"\n")
    text = failure_text(ingest(paimon, landing, format=file_format))
    assert f"2.{file_format}', line 3: " in text, text
    assert "FileSource(dead_letters='db.table')" in text


def test_bad_value_is_named_with_its_column(landing: Path, paimon: PaimonCatalogResource) -> None:
    (landing / "1.csv").write_text("id,note,day\n1,a,2024-01-01\nx,a,2024-01-01\n")
    text = failure_text(ingest(paimon, landing, format="csv"))
    assert "1.csv', line 3: column 'id': 'x' is not a value of type BIGINT" in text
    assert "declare a wider type with schema_policy='sync', or say FileSource(dead" in text


@pytest.mark.parametrize("bad", ["x,c,", '3,c,"', '3,"c,', "3,c,,"])
def test_fault_behind_value_with_line_end_has_its_line(
    bad: str, landing: Path, paimon: PaimonCatalogResource
) -> None:
    (landing / "1.csv").write_text(f'id,note,day\n1,"a\nb",\n{bad}\n4,d,\n')
    text = failure_text(ingest(paimon, landing, format="csv"))
    assert "line 4: " in text
    assert "on_bad_file='quarantine'" in text
    assert len(text) < 1200


def test_open_quotes_are_dead_letters_with_their_reason(
    landing: Path, paimon: PaimonCatalogResource
) -> None:
    (landing / "1.csv").write_text('id,note,day\n1,"a,\n2,b,\n3,c,"\n')
    assert ingest(paimon, landing, format="csv", dead_letters="s.dead").success
    letters = rows_of(paimon.catalog().get_table("s.dead"))
    assert sorted(row["line"] for row in letters) == [2, 4]
    reason = "a quote does not close in its line; a record is one line"
    assert {row["reason"] for row in letters} == {reason}


def test_values_are_not_shown_where_resource_hides_them(landing: Path, warehouse: str) -> None:
    (landing / "1.csv").write_text("id,note,day\nsecret,a,2024-01-01\n")
    paimon = PaimonCatalogResource(warehouse=warehouse, show_values=False)
    text = failure_text(ingest(paimon, landing, format="csv"))
    assert "line 2" in text
    assert "secret" not in text
    shown = metadata_of(ingest(paimon, landing, format="csv", dead_letters="s.dead"), KEY)
    assert "secret" not in str(shown)
    assert shown["paimon/dead_letters"] == 1


def test_names_that_hold_rows_are_refused(landing: Path, paimon: PaimonCatalogResource) -> None:
    (landing / "a.csv").write_bytes(b'id,note,day\r1,"a\nb",\r2,c,\r')
    result = ingest(paimon, landing, format="csv", dead_letters="s.dead")
    assert "its lines end with CR, and it holds LF" in failure_text(result)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"format": "parquet"}, "only CSV and JSON"),
        ({"format": "json", "options": {"multiLine": "true"}}, "a record a line"),
        ({"format": "csv", "extra_columns": "add"}, "extra_columns='ignore'"),
        ({"format": "debezium-json"}, "ChangeLog(dead_letters=…)"),
    ],
)
def test_invalid_dead_letters_are_refused(words: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        FileSource(folder="x", dead_letters="s.dead", **words)
    assert text in str(refused.value)


def fetched_of(values: list[bytes | None]) -> Fetched:
    records = pa.table(
        {
            "offset": pa.array(range(7, 7 + len(values)), pa.int64()),
            "timestamp": pa.array([0] * len(values), pa.timestamp("ms", "UTC")),
            "key": pa.array([b"k"] * len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
    span = OffsetRange(topic="t", partition=0, start=7, end=7 + len(values))
    return Fetched(range=span, records=records)


_TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(), "note": pa.string(), "day": pa.date32(), "at": pa.int64(),
}  # fmt: skip
COLUMNS = pa.schema(_TYPES)


@pytest.mark.parametrize("seed", range(40))
def test_good_records_are_rows_and_bad_ones_dead_letters(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 (draws)
    bad = [each for each in BAD["json"] if b"toolong" not in each and b'{"note"' not in each]
    bad = [each for each in bad if each != b"{}"] + [b"", b" ", b'{"id": 1}\n{"id": 2}']
    values, offsets = list[bytes | None](), list[int]()
    for number in range(rng.choice([1, 7, 100])):
        draw = rng.random()
        values.append(
            None if draw < 0.1 else rng.choice(bad) if draw < 0.4 else b'{"id":\n%d}' % number
        )
        if draw >= 0.4:
            offsets.append(7 + number)
    letters = list[Rejected]()
    batches = rows(fetched_of(values), COLUMNS, {"at": "offset"}, reject=letters.append)
    assert [at for batch in batches for at in batch["at"].to_pylist()] == offsets
    bad_offsets = [
        at + 7 for at, each in enumerate(values) if each is not None and at + 7 not in offsets
    ]
    assert [each.place for each in letters] == bad_offsets


def test_bad_record_is_named_by_its_offset() -> None:
    fetched = fetched_of([b'{"id": 1}', None, b"no json", b'{"id": 2}'])
    with pytest.raises(FormatError) as refused:
        list(rows(fetched, COLUMNS, {"at": "offset"}))
    assert "'t[0]', offset 9" in str(refused.value)
    assert "KafkaSource(dead_letters='db.table')" in str(refused.value)
