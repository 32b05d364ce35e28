"""Texts as a running Java has them: FLOAT and DOUBLE, the names of folders; CHAR in ORC."""

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets import Schema, update_column_type
from paimon_assets.engine.spec.partition import java_float_text
from tests.interop.steps import OurSide
from tests.testkit.compacting import compact
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop

COUNT = 20_000
FIRST_OF_SHORTEST = 19
"""From this release on Java writes the shortest text."""


@pytest.mark.parametrize("single", [False, True])
def test_folders_of_floats_are_named_as_by_java_before_19(java: Oracle, single: bool) -> None:
    chance = np.random.default_rng(15)
    real, whole = (np.float32, np.int32) if single else (np.float64, np.int64)
    limits = np.iinfo(whole)
    largest = 2.0 ** (31 if single else 63)
    bits = np.concatenate(
        [
            chance.integers(limits.min, limits.max, COUNT, whole),
            np.floor(chance.uniform(0, largest, COUNT)).astype(real).view(whole),
            chance.uniform(1e25, 8e25, COUNT).astype(real).view(whole),  # its long runs over there
            chance.integers(1, 10_000, COUNT, whole),
            np.round(chance.uniform(-1e6, 1e6, COUNT), 2).astype(real).view(whole),
        ]
    )
    release, *texts = java.call("float_texts", single=single, bits=bits.tolist())
    if int(release.split(".")[-1]) >= FIRST_OF_SHORTEST:
        pytest.skip(f"Java {release} names folders otherwise")
    with np.errstate(invalid="ignore"):  # NaN that signal
        numbers = bits.view(real).astype(np.float64).tolist()
    assert [java_float_text(each, single=single) for each in numbers] == texts


@pytest.mark.parametrize("keys", [(), ("c",)], ids=["append", "keyed"])
def test_char_in_orc_has_no_blanks_at_its_end(
    keys: tuple[str, ...], java: Oracle, ours: OurSide
) -> None:
    columns = {"c": "CHAR(5)", "v": "INT", "n": "ARRAY<CHAR(5)>"}
    options = {"file.format": "orc", "bucket": "1" if keys else "-1"}
    name = f"texts.char_{'keyed' if keys else 'append'}"
    table = ours.create(name, Schema.of(columns, primary_keys=keys, options=options))
    texts = ["ab   ", "ab", "  x  ", "", "abcde"]
    rows = pa.table(
        {"c": texts, "v": pa.array(range(5), pa.int32()), "n": [[text] for text in texts]}
    )
    table.new_write_builder().write(rows, ours.executor)
    found = table.new_read_builder().to_arrow().to_pylist()
    expected = [
        {"c": text.rstrip(" "), "v": number, "n": [text.rstrip(" ")]}
        for number, text in enumerate(texts)
        if not keys or number != 0
    ]
    assert sorted(found, key=lambda row: row["v"]) == expected
    theirs = java.call("rows", table=name)
    assert sorted(theirs, key=lambda row: row[1]) == [list(row.values()) for row in expected]
    assert table.new_read_builder().with_filter("c = 'ab'").count() == (1 if keys else 2)


@pytest.mark.parametrize("name", ["orc", "avro", "parquet"])
def test_bytes_changed_to_texts_are_read_after_java_rewrite(
    name: str, java: Oracle, ours: OurSide
) -> None:
    schema = Schema.of(
        {"k": "INT", "b": "BYTES"}, primary_keys=["k"], options={"file.format": name, "bucket": "1"}
    )
    table = ours.create(f"texts.bytes_{name}", schema)
    values = [b"\xffab", b"plain", None, b"\xc3\x28"]
    for start in (0, 2):
        rows = {"k": pa.array([start, start + 1], pa.int32()), "b": values[start : start + 2]}
        table.new_write_builder().write(pa.table(rows), ours.executor)
    table.alter([update_column_type("b", "STRING")])

    def check() -> None:
        read = table.new_read_builder()
        assert read.to_arrow().sort_by("k")["b"].cast(pa.binary()).to_pylist() == values
        assert read.with_filter("b = 'plain'").count() == 1

    check()
    assert java.call("compact", table=table.name) > 0
    check()
    rows = {"k": pa.array([0], pa.int32()), "b": ["new"]}
    table.new_write_builder().write(pa.table(rows), ours.executor)
    values[0] = b"new"
    compact(table, "full")
    check()
