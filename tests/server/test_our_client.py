"""Our own client over our own server: every change of a table as on the file system."""

import pytest

from paimon_assets.engine.table.api import open_catalog
from paimon_assets.server.serve import ServeSettings
from tests.testkit.faults.table_changes import DEEDS, prepare, read
from tests.testkit.rest_server import serving

FROM_A_SNAPSHOT = "fast forward"
"""The deed whose branch begins with a snapshot; catalogs make them from tags."""


def outcome(opened, directory, deed):
    """Return what a change makes of a table."""
    deed.perform(prepare(directory, deed, opened))
    found = opened.get_table("d.t")
    return (
        [(s.id, s.commit_kind, s.schema_id, read(found, s.id)) for s in found.snapshots()],
        [(tag.name, tag.snapshot.id) for tag in found.tags.list()],
        (found.schema.id, found.schema.fields),
    )


@pytest.mark.parametrize(
    "deed", [deed for deed in DEEDS if deed.name != FROM_A_SNAPSHOT], ids=lambda deed: deed.name
)
def test_every_change_is_the_same_as_on_the_file_system(deed, tmp_path):
    expected = outcome(open_catalog(str(tmp_path / "a" / "warehouse")), tmp_path / "a", deed)
    warehouse = tmp_path / "b" / "warehouse"
    warehouse.mkdir(parents=True)
    with serving(ServeSettings(warehouse=str(warehouse), insecure=True)) as client:
        uri = f"http://127.0.0.1:{client.port}"
        opened = open_catalog("w", metastore="rest", uri=uri, token="any")  # noqa: S106
        assert outcome(opened, warehouse.parent, deed) == expected
