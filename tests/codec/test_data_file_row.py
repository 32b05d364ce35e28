import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec.rows.binary_row import row_bytes, row_values
from paimon_assets.engine.codec.rows.data_file_row import FILE_ROW_TYPES, file_from_row, file_to_row
from tests.testkit.builders import data_file
from tests.testkit.codec_strategies import check_damage, data_files, longs


@given(data_files, st.none() | st.lists(longs, max_size=3).map(tuple))
def test_data_file_rows_round_trip(file, sequences):
    file = file._replace(column_sequences=sequences)
    assert file_from_row(file_to_row(file)) == file


@pytest.mark.parametrize("arity", [15, 16, 17, 18, 19])
def test_missing_fields_of_shorter_row_are_none(arity):
    file = data_file(first_row_id=7, write_cols=("a",), value_stats_cols=("a",), external_path="p")
    values = row_values(file_to_row(file), FILE_ROW_TYPES)
    found = file_from_row(row_bytes(values[:arity], FILE_ROW_TYPES[:arity]), arity)
    late = (found.file_source, found.value_stats_cols, found.external_path, found.first_row_id)
    kept = arity - 15
    expected = (file.file_source, ("a",), "p", 7)
    assert late == expected[:kept] + (None,) * (4 - kept)
    assert found.file_name == file.file_name
    assert found.write_cols is None


@given(data_files, st.data())
def test_damaged_byte_raises_typed_error(file, data):
    check_damage(data, file_to_row(file), file_from_row)
