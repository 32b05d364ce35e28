"""The derived change log: what a booking system would have said, and in which order."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from jobs.demo.change_log import CHANGE_SCHEMA, derive_changes, split_into_files
from jobs.demo.expectations import KEY, difference, expected_flights, with_padding, without_padding
from jobs.demo.nycflights import read_flights
from jobs.demo.schemas import FLIGHTS
from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.spec.schema.schema import Schema
from tests.testkit.tables import new_table, write

pytestmark = pytest.mark.slow

EVERY = 20


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    return read_flights(EVERY)


@pytest.fixture(scope="module")
def changes(flights: pd.DataFrame) -> pa.Table:
    return derive_changes(flights)


@pytest.fixture(scope="module")
def files(changes: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("changes")
    paths = []
    for number, part in enumerate(split_into_files(changes, 8)):
        paths.append(folder / f"changes-{number:03d}.parquet")
        pq.write_table(part, paths[-1])
    return paths


def test_key_is_unique_in_source():
    source = read_flights()
    assert len(source) == 336_776
    assert not source.duplicated(KEY).any()
    assert int(source["dep_time"].isna().sum()) == 8_255


def test_departed_flight_has_five_changes_and_cancelled_two(flights, changes):
    went = int(flights["dep_time"].notna().sum())
    assert changes.num_rows == 5 * went + 2 * (len(flights) - went)
    assert changes.schema.equals(CHANGE_SCHEMA)
    kinds = dict(
        zip(*(c.to_pylist() for c in pc.value_counts(changes["op"]).flatten()), strict=True)
    )
    assert kinds == {"+I": len(flights), "-U": 2 * went, "+U": 2 * went, "-D": len(flights) - went}


def test_only_halves_of_update_share_second(changes):
    frame = changes.to_pandas()
    frame["adds"] = frame["op"].isin(["+I", "+U"])
    assert not frame.duplicated([*KEY, "op_time", "adds"]).any()
    assert set(frame[frame.duplicated([*KEY, "op_time"], keep=False)]["op"]) == {"-U", "+U"}


def test_operation_times_are_whole_seconds(changes):
    assert not np.any(changes["op_time"].cast(pa.int64()).to_numpy() % 1_000)


def test_log_is_out_of_order_within_keys_and_across_files(changes, files):
    frame = changes.to_pandas()
    earlier = frame.groupby(KEY)["op_time"].cummax() > frame["op_time"]
    assert earlier.any()
    firsts = [pq.read_table(path)["op_time"][0].as_py() for path in files]
    assert firsts != sorted(firsts)


def test_change_log_is_deterministic(flights, changes):
    assert derive_changes(flights).equals(changes)


def test_files_hold_every_change_once(changes, files):
    read = pa.concat_tables([pq.read_table(path) for path in files])
    order = [*KEY, "op_time", "op"]
    read, wanted = (
        table.take(pc.sort_indices(table, [(k, "ascending") for k in order]))
        for table in (read, changes)
    )
    assert read.equals(wanted)


def test_padding_keeps_departed_flights(files):
    expected = len(expected_flights(EVERY))
    assert with_padding(files) == expected
    assert without_padding(files) < expected


def test_last_change_of_flight_is_expected_row(changes):
    frame = changes.to_pandas()
    frame["adds"] = frame["op"].isin(["+I", "+U"])
    last = frame.sort_values([*KEY, "op_time", "adds"]).drop_duplicates(KEY, keep="last")
    kept = pa.Table.from_pandas(last[last["adds"]].drop(columns="adds"), preserve_index=False)
    assert difference(kept, expected_flights(EVERY)) is None


@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.hunt_only)])
def test_flights_with_microseconds_are_same(every, tmp_path):
    """`row-kind-flag` alone orders TIMESTAMP(6), a change log's own type, as it does seconds."""
    columns = {field.name: str(field.type) for field in FLIGHTS.fields}
    schema = Schema.of(
        {**columns, "op_time": "TIMESTAMP(6)"},
        partition_keys=FLIGHTS.partition_keys,
        primary_keys=FLIGHTS.primary_keys,
        options=FLIGHTS.options,
    )
    table = new_table(tmp_path, schema, name="demo.flights")
    target = to_arrow_schema(schema.fields)
    for part in split_into_files(derive_changes(read_flights(every)), 8):
        write(table, part.select(target.names).cast(target))
    found = table.new_read_builder().to_arrow()
    at = found.schema.get_field_index("op_time")
    seconds = found.set_column(at, "op_time", found["op_time"].cast(pa.timestamp("s")))
    assert difference(seconds, expected_flights(every)) is None
    assert every > 1 or found.num_rows == 328_521


def test_year_has_documented_counts():
    assert len(expected_flights()) == 328_521
