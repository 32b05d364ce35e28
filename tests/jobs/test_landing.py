"""The landing folder: files arrive once, whole, and are never mixed."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.demo.landing import change_files, receive_changes, receive_weather
from paimon_assets.engine.errors import InvalidInputError


def test_files_land_once_and_lost_one_is_restored(tmp_path: Path):
    received = receive_changes(tmp_path, every=500, files=4)
    assert received == change_files(tmp_path, 4)
    assert receive_changes(tmp_path, every=500, files=4) == []
    lost = received[2].read_bytes()
    received[2].unlink()
    assert receive_changes(tmp_path, every=500, files=4) == [received[2]]
    assert received[2].read_bytes() == lost


def test_files_of_another_scale_are_refused_and_nothing_is_written(tmp_path: Path):
    receive_changes(tmp_path, every=500, files=4)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInputError, match="make clean"):
        receive_changes(tmp_path, every=100, files=4)
    assert sorted(tmp_path.rglob("*")) == before


def test_weather_lands_in_twelve_files(tmp_path: Path):
    received = receive_weather(tmp_path)
    assert len(received) == 12
    rows = pa.concat_tables([pq.read_table(path) for path in received])
    assert rows.num_rows == 26_115
    assert rows.schema.field("time_hour").type in (pa.timestamp("s"), pa.timestamp("ms"))
    assert receive_weather(tmp_path) == []
