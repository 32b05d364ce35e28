"""Tables that older versions wrote are read, and written on, by this one."""

import zipfile

import pyarrow as pa
import pytest

from tests.golden.write_warehouse import FOLDER, states
from tests.testkit.rows import plain_rows
from tests.testkit.tables import compact, new_catalog_in, write

ARCHIVES = sorted(FOLDER.glob("*.zip"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.stem)
def folder(request, tmp_path):
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def _rows(path):
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def test_golden_states_have_their_rows(folder):
    seen = set()
    for name, _, reader in states(folder / "warehouse"):
        expected, rows = _rows(folder / "rows" / f"{name}.arrow"), reader.to_arrow()
        assert rows.schema == expected.schema, name
        names = rows.column_names
        assert plain_rows(rows, names) == plain_rows(expected, names), name
        seen.add(name)
    assert len(seen) > 40
    assert seen == {path.stem for path in (folder / "rows").iterdir()}


def test_newest_golden_states_are_writable(folder):
    catalog = new_catalog_in(folder / "warehouse")
    for name in catalog.list_tables("db"):
        table = catalog.get_table(f"db.{name}")
        before = table.to_arrow()
        compact(table)
        rows, names = table.refresh().to_arrow(), before.column_names
        if name not in ("vectors", "first"):  # whose last rows were to wait for a compaction
            assert plain_rows(rows, names) == plain_rows(before, names), name
        assert write(table, before.slice(0, 1)) is not None
        written = table.refresh().to_arrow().num_rows
        assert written == rows.num_rows + (not table.schema.primary_keys)
