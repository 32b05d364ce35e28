"""Written rows are read back, for every atomic type and any mixture of them."""

import tempfile

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_assets import EmbeddedExecutor, Schema
from tests.testkit.effort import often
from tests.testkit.model import ModelTable
from tests.testkit.rows import plain_rows, rows_to_arrow
from tests.testkit.strategies import rows_of, schemas
from tests.testkit.tables import new_table


@settings(max_examples=often(24), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schemas(), st.data())
def test_commits_of_any_types_round_trip(schema: Schema, data: st.DataObject) -> None:
    model = ModelTable(schema)
    names = [column.name for column in schema.fields]
    with tempfile.TemporaryDirectory(prefix="round-trip-") as warehouse:
        table = new_table(warehouse, schema, name="d.t")
        for _ in range(2):
            rows = data.draw(st.lists(rows_of(schema, {"id": st.integers(0, 5)}), max_size=8))
            model.write(rows)
            table.new_write_builder().write(
                rows_to_arrow(rows, schema), EmbeddedExecutor(threads=1)
            )
        found = table.new_read_builder().to_arrow()
    expected = rows_to_arrow(model.rows(), schema)
    assert found.schema.equals(expected.schema)
    assert plain_rows(found, names) == plain_rows(expected, names)
