"""The history of tables that Java Paimon wrote: differences between any of their snapshots."""

import itertools

import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.table.api import open_table
from tests.table.test_java_tables import INDEX, TABLES, multiset, short

pytestmark = pytest.mark.skipif(not INDEX, reason="needs ../shared/tables, written by Java Paimon")
EXECUTOR = EmbeddedExecutor(threads=2)
KEYED = [name for name in sorted(INDEX) if "pk_" in name]


@pytest.mark.parametrize("name", KEYED, ids=short)
def test_a_difference_leads_from_any_state_to_any_later_one(name):
    table = open_table(str(TABLES / name))
    names = list(table.schema.field_names)
    # A state of the past has its own columns; differences are told in today's.
    ids = [one.id for one in table.snapshots() if one.schema_id == table.schema.id]
    states = {number: _rows(table.new_read_builder().at_snapshot(number), names) for number in ids}
    for start, end in itertools.combinations(ids, 2):
        changes = table.new_read_builder().between(start, end, "diff").with_row_kinds()
        told = _rows(changes, ["rowkind", *names])
        old, new = states[start], states[end]
        gone, came, changed = (_of_kind(told, kind) for kind in ("-D", "+I", "+U"))
        assert gone <= old - new
        assert came | changed == new - old
        assert len(gone) + len(changed) == len(old - new)


def _rows(builder, names):
    return set(multiset(builder.to_arrow(EXECUTOR), names))


def _of_kind(told, kind):
    prefix = f"('{kind}', "
    return {f"({row.removeprefix(prefix)}" for row in told if row.startswith(prefix)}


def test_a_branch_of_java_is_read_by_its_name():
    name = next(name for name in INDEX if "append_table_with_append_pt_branch" in name)
    table = open_table(str(TABLES / name))
    assert list(table.branches.list()) == ["test"]
    branch = table.at_branch("test")
    assert branch.latest_snapshot() is not None
    assert branch.new_read_builder().to_arrow(EXECUTOR).num_rows > 0
    assert branch.system_table("files").to_arrow().num_rows == len(branch.state.live_files())


@pytest.mark.parametrize("name", sorted(INDEX), ids=short)
def test_system_tables_of_any_table_are_read(name):
    table = open_table(str(TABLES / name))
    for kind in ("files", "manifests", "partitions", "buckets", "table_indexes", "schemas"):
        system = table.system_table(kind)
        assert system.to_arrow().schema == system.arrow_schema
    assert table.system_table("files").to_arrow().num_rows == len(table.state.live_files())
