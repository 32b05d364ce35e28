"""File indexes never lose a row that passes, and hold the bytes Java writes."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets import FormatError
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import internals
from paimon_assets.engine.codec.file_index.file_index import (
    decode_file_index,
    encode_file_index,
    has_passing_rows,
    passing_rows,
)
from paimon_assets.engine.codec.file_index.file_index_bitmap import (
    BLOCK_VERSION,
    FLAT_VERSION,
    BitmapBuilder,
    is_indexed_by_bitmap,
)
from paimon_assets.engine.codec.file_index.file_index_bloom import (
    BloomBuilder,
    is_indexed_by_bloom,
    may_hold,
)
from paimon_assets.engine.codec.hashing.xxhash64 import xxhash64
from paimon_assets.engine.codec.json.metadata_json import schema_from_json
from paimon_assets.engine.data.read.row_stage import passing_rows as true_rows
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.rows import rows_to_arrow
from tests.testkit.strategies import TYPE_TEXTS, values_of
from tests.testkit.tables import table_schema

TABLES = Path(__file__).parents[3] / "shared" / "tables"
BUILDERS = {
    "bloom-filter": (is_indexed_by_bloom, lambda of: BloomBuilder(data_type=of, items=40)),
    "bitmap": (is_indexed_by_bitmap, lambda of: BitmapBuilder(data_type=of, block_bytes=40)),
    "bitmap 1": (
        is_indexed_by_bitmap,
        lambda of: BitmapBuilder(data_type=of, version=FLAT_VERSION),
    ),
}


def field_of(type_text):
    return DataField(id=0, name="c", type=parse_type(type_text))


def index_of(kind, field, *chunks):
    builder = BUILDERS[kind][1](field.type)
    for chunk in chunks:
        builder.add(chunk)
    body = builder.finish()
    return encode_file_index({} if body is None else {"c": {kind.partition(" ")[0]: body}})


def column_of(field, values):
    schema = table_schema({"c": str(field.type)})
    table = rows_to_arrow([{"c": value} for value in values], schema)
    return pa.concat_arrays([*table.column("c").chunks, pa.array([], to_arrow_type(field.type))])


def leaves(literals):
    one = st.sampled_from(literals)
    return st.one_of(
        st.builds(
            lambda op, value: pred.Comparison("c", op, value), st.sampled_from(pred.CompareOp), one
        ),
        st.builds(
            lambda some, negated: pred.In("c", tuple(some), negated),
            st.lists(one, min_size=1, max_size=3),
            st.booleans(),
        ),
        st.builds(lambda negated: pred.IsNull("c", negated), st.booleans()),
    )


@given(st.data(), TYPE_TEXTS, st.sampled_from(sorted(BUILDERS)))
def test_no_index_leaves_out_row_that_passes(data, type_text, kind):
    field = field_of(type_text)
    if not BUILDERS[kind][0](field.type):
        return
    few = data.draw(st.lists(values_of(field.type), min_size=1, max_size=4))
    values = data.draw(st.lists(st.sampled_from([*few, None]), max_size=20))
    column = column_of(field, values)
    cut = data.draw(st.integers(0, len(values)))
    index = index_of(kind, field, column[:cut], column[cut:])
    foreign = data.draw(st.lists(values_of(field.type), max_size=3))
    literals = list(internals(column_of(field, [*few, *foreign]), field.type))
    leaf = data.draw(leaves(literals))
    parts = [leaf, data.draw(leaves(literals))]
    predicate = data.draw(st.sampled_from([leaf, pred.all_of(parts), pred.any_of(parts)]))
    mask = true_rows(predicate, lambda _: column, {"c": field})
    wanted = set(np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist())
    found = passing_rows(index, predicate, {"c": field}, "f.index")
    assert found is None or wanted <= set(found)
    exact = kind != "bloom-filter" and type_text != "TIMESTAMP(9)"
    if exact and found is not None and predicate is leaf:
        assert set(found) == wanted


def test_index_finds_signed_zeros_and_nan():
    column = pa.array([0.0, -0.0, float("nan"), 1.0, None])
    field = field_of("DOUBLE")
    for kind in ("bitmap", "bitmap 1"):
        index = index_of(kind, field, column)

        def rows(predicate, index=index):
            return set(passing_rows(index, predicate, {"c": field}, "f"))

        assert rows(pred.equal("c", 0.0)) == rows(pred.equal("c", -0.0)) == {0, 1}
        assert rows(pred.Comparison("c", pred.CompareOp.NE, 1.0)) == {0, 1, 2}
        assert (
            passing_rows(index, pred.Comparison("c", pred.CompareOp.NE, 0.0), {"c": field}, "f")
            is None
        )
        assert passing_rows(index, pred.equal("c", float("nan")), {"c": field}, "f") is None
    bloom = index_of("bloom-filter", field, column[1:])
    assert has_passing_rows(bloom, pred.equal("c", 0.0), {"c": field}, "f")


@pytest.mark.parametrize("kind", ["bitmap", "bitmap 1"])
def test_bitmap_finds_each_of_many_values(kind):
    texts = [f"value {number % 700}" for number in range(2000)]
    field = field_of("STRING")
    index = index_of(kind, field, pa.array(texts))
    for number in (0, 1, 13, 699):
        found = passing_rows(index, pred.equal("c", f"value {number}"), {"c": field}, "f")
        assert list(found) == [row for row in range(2000) if row % 700 == number]
    absent = [pred.equal("c", text) for text in ("", "value 7000", "z")]
    assert not any(has_passing_rows(index, each, {"c": field}, "f") for each in absent)


def test_bloom_filter_rules_out_absent_values():
    texts = pa.array([f"user-{number}" for number in range(1000)])
    builder = BloomBuilder(data_type=parse_type("STRING"), items=1000, fpp=0.01)
    builder.add(texts)
    data = builder.finish()
    type_ = parse_type("STRING")
    assert all(may_hold(data, text, type_) for text in texts.to_pylist()[::37])
    assert sum(may_hold(data, f"other-{number}", type_) for number in range(2000)) < 60


def test_bloom_filter_has_size_java_gives_it():
    assert len(BloomBuilder(data_type=parse_type("INT")).finish()) == 599_071


def test_xxhash64_of_known_texts():
    texts = ["", "a", "abc", "Nobody inspects the spammish repetition"]
    assert [f"{value:016x}" for value in xxhash64(pa.array(texts))] == [
        "ef46db3751d8e999",
        "d24ec4f1a98c6e5b",
        "44bc2cf5ad770999",
        "fbcea83c8a378bf1",
    ]


@given(st.lists(st.binary(max_size=90), max_size=6))
def test_xxhash64_of_value_does_not_depend_on_its_neighbours(values):
    together = xxhash64(pa.array(values, pa.binary())).tolist()
    assert together == [int(xxhash64(pa.array([value], pa.binary()))[0]) for value in values]


def test_unknown_index_types_rule_nothing_out():
    index = encode_file_index({"c": {"range-bitmap": b"\x01\x02"}})
    field = field_of("INT")
    assert passing_rows(index, pred.equal("c", 1), {"c": field}, "f") is None
    assert passing_rows(index, pred.StartsWith("c", "a"), {"c": field}, "f") is None


@pytest.mark.parametrize("kind", sorted(BUILDERS))
def test_damaged_index_is_named(kind):
    field = field_of("INT")
    index = index_of(kind, field, pa.array([1, 2, 2, None, -5, 2, None]))
    for length in range(len(index)):
        with pytest.raises(FormatError, match=r"f\.index") as caught:
            passing_rows(index[:length], pred.equal("c", 2), {"c": field}, "f.index")
        assert caught.value.kind == "file-index"
    with pytest.raises(FormatError, match="magic"):
        passing_rows(b"\0" * 40, pred.equal("c", 2), {"c": field}, "f.index")


@given(st.data(), st.sampled_from(sorted(BUILDERS)), st.sampled_from(["INT", "STRING"]))
def test_changed_bytes_do_not_crash(data, kind, type_text):
    field = field_of(type_text)
    if not BUILDERS[kind][0](field.type):
        return
    numbers = [1, 2, 2, None, 5, 2, None]
    values = [None if n is None else f"v{n}" for n in numbers] if type_text == "STRING" else numbers
    index = bytearray(index_of(kind, field, column_of(field, values)))
    for _ in range(data.draw(st.integers(1, 3))):
        index[data.draw(st.integers(0, len(index) - 1))] = data.draw(st.integers(0, 255))
    predicate = data.draw(st.sampled_from([pred.equal("c", values[1]), pred.IsNull("c")]))
    with suppress(FormatError):
        passing_rows(bytes(index), predicate, {"c": field}, "f")


def java_indexes():
    """(index file, schema) of the tables Java wrote index files for."""
    for path in sorted(TABLES.glob("parquet/**/bucket-*/*.parquet.index")):
        schema = path.parents[1] / "schema" / "schema-0"
        yield pytest.param(path, schema, id=path.parents[1].name)


@pytest.mark.parametrize(("path", "schema_path"), list(java_indexes()))
def test_java_filters_by_our_index_and_we_write_its_bytes(path, schema_path):
    schema = schema_from_json(schema_path.read_bytes(), str(schema_path))
    rows = pq.read_table(path.with_suffix(""))
    data = path.read_bytes()
    for name, by_type in decode_file_index(data).items():
        field = schema.by_name[name]
        column = rows.column(name).combine_chunks().cast(to_arrow_type(field.type))
        for value in {each for each in internals(column, field.type) if each is not None}:
            found = passing_rows(data, pred.equal(name, value), schema.by_name, str(path))
            wanted = np.flatnonzero(pc.equal(column, value).fill_null(False).to_numpy(False))
            assert list(found) == wanted.tolist()
        builder = BitmapBuilder(data_type=field.type, version=by_type["bitmap"][0])
        assert builder.version == BLOCK_VERSION
        builder.add(column)
        # The order of the bitmaps is that of a hash map in Java.
        assert len(builder.finish()) == len(by_type["bitmap"])
