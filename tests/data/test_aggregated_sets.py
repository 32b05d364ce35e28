"""Bitmaps and sketches, united as Java unites them: its own bytes, made by running it."""

import csv
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine.codec.bitmaps.roaring import read_java_bitmap64
from paimon_assets.engine.data.merge.aggregate.functions import Aggregate
from paimon_assets.engine.data.merge.records import Grouped
from paimon_assets.engine.errors import FormatError, UnsupportedFeatureError
from paimon_assets.engine.spec.merge.merge_rules import AggregateFunction, FieldAggregation

GOLDEN = Path(__file__).parents[1] / "golden" / "aggregated_sets.csv"
with GOLDEN.open() as lines:
    VECTORS = [tuple(row.values()) for row in csv.DictReader(lines)]
SKETCHES = ("theta_sketch", "hll_sketch")


def unite_sets(function, *groups):
    """Unite the values of each group."""
    if function in SKETCHES:
        pytest.importorskip("datasketches")
    values = [value for group in groups for value in group]
    segments = Grouped(
        count=len(groups),
        groups=np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
        rows=np.arange(len(values)),
    )
    settings = FieldAggregation(column="v", function=AggregateFunction(function))
    return Aggregate.of(settings, "d.t")(pa.array(values, pa.binary()), segments).to_pylist()


@pytest.mark.parametrize(
    ("function", "first", "second", "union"),
    VECTORS,
    ids=[f"{vector[0]}-{number}" for number, vector in enumerate(VECTORS)],
)
def test_set_union_equals_java(function, first, second, union):
    first, second, union = map(bytes.fromhex, (first, second, union))
    (found,) = unite_sets(function, [first, second])
    if function == "rbm64":  # Java's containers lie in the order they came
        found, union = map(read_java_bitmap64, (found, union))
    assert found == union


@pytest.mark.parametrize("function", ["rbm32", "rbm64", *SKETCHES])
def test_single_set_is_kept_and_no_set_is_null(function):
    assert unite_sets(function, [b"anything"], [None], [], [None, b"x"]) == [
        b"anything", None, None, b"x"
    ]  # fmt: skip


@pytest.mark.parametrize("function", SKETCHES)
def test_many_sketches_are_united(function):
    sets = [bytes.fromhex(part) for name, *parts in VECTORS if name == function for part in parts]
    first, *rest = sets
    expected = first
    for other in rest:
        (expected,) = unite_sets(function, [expected, other])
    assert unite_sets(function, sets, [first]) == [expected, first]


@pytest.mark.parametrize("function", ["rbm32", "rbm64", *SKETCHES])
@pytest.mark.parametrize("value", [b"", b"no set", b"\x01" * 40])
def test_invalid_set_names_its_column(function, value):
    with pytest.raises(
        FormatError, match="Column 'v' holds a value that is not a valid "
    ) as caught:
        unite_sets(function, [value, value])
    assert caught.value.kind == "aggregated-set"


@pytest.mark.parametrize("function", SKETCHES)
def test_sketches_without_their_library_name_extra(function, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    settings = FieldAggregation(column="v", function=AggregateFunction(function))
    with pytest.raises(UnsupportedFeatureError, match=r"Column 'v'.*\[sketches\]") as caught:
        Aggregate.of(settings, "d.t")
    assert caught.value.kind == f"aggregate-function-{function}"
