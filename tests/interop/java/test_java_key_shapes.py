"""Every shape of key beside every shape of partition, written by us and by Java in turns."""

import random
from itertools import chain

import pytest

from tests.interop.steps import Compact, JavaSide, OurSide, Write
from tests.testkit.key_shapes import NAMES, SHAPES, KeyShape, drawn_rows, merge_rows
from tests.testkit.oracle import Oracle
from tests.testkit.rows import plain_rows

pytestmark = pytest.mark.interop

BUCKETS = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    "waiting": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
}
ENGINES = ("deduplicate", "partial-update", "first-row")
CASES = [
    (shape, buckets, engine)
    for shape in SHAPES
    for buckets in BUCKETS
    for engine in ENGINES
    if engine == "deduplicate" or (shape.is_partial and buckets == "dynamic")
    if buckets == "dynamic" or not shape.crosses
]


@pytest.mark.parametrize(("shape", "buckets", "engine"), CASES, ids=str)
def test_both_keep_row_of_every_key(
    shape: KeyShape, buckets: str, engine: str, java: Oracle, ours: OurSide
) -> None:
    name = f"shapes.{shape}_{buckets}_{engine.replace('-', '_')}".replace("+", "_")
    theirs = JavaSide(java, ours)
    schema = shape.schema({**BUCKETS[buckets], "merge-engine": engine})
    table = ours.create(name, schema)
    draw = random.Random(name)  # noqa: S311 - test data
    written = []
    for turn in range(4):
        rows = drawn_rows(draw)
        (theirs if turn % 2 else ours).do(name, Write(tuple(rows)))
        written.append(rows)
        if buckets == "waiting" or engine == "first-row" or turn == 2:
            (theirs if turn % 3 else ours).do(name, Compact(is_full=True))
        expected = plain_rows(merge_rows(schema, chain.from_iterable(written)), NAMES)
        assert plain_rows(table.new_read_builder().to_arrow(), NAMES) == expected
        assert sorted(map(tuple, java.call("rows", table=name)), key=repr) == expected
