"""Tables whose catalog authorizes reads: plain reads pass, masks and filters are refused."""

import pyarrow as pa
import pytest

from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.errors import AccessDeniedError, UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import remove_option, set_option
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import TableCatalog
from tests.testkit.errors import refused
from tests.testkit.served_catalog import ServedCatalog
from tests.testkit.tables import new_catalog_in, new_table, write

OPTION = "query-auth.enabled"


class JudgingCatalog(ServedCatalog):
    """Lets readers see all but `secret`, and `masked` only masked."""

    def __init__(self, warehouse: str) -> None:
        super().__init__(warehouse)
        self.asked: list[tuple[str, ...]] = []

    def is_plain_query(self, identifier, columns):
        self.asked.append(tuple(columns))
        if "secret" in columns:
            raise AccessDeniedError("not yours")
        return "masked" not in columns


@pytest.fixture
def catalog(tmp_path):
    made = TableCatalog(JudgingCatalog(str(tmp_path)))
    made.create_database("db")
    table = new_table(made, {"id": "INT", "masked": "STRING", "secret": "STRING"})
    rows = {"id": pa.array([1, 2], pa.int32()), "masked": ["a", "b"], "secret": ["c", "d"]}
    write(table, pa.table(rows))
    made.alter_table("db.t", [set_option(OPTION, "true")])
    return made


@pytest.fixture
def auth_requests(catalog):
    return catalog._catalog.asked


KEYED = {"primary_keys": ["id"]}


REFUSED = pytest.mark.parametrize(
    ("more", "option", "kind"),
    [
        (KEYED, "sequence.snapshot-ordering", "unsupported-snapshot-ordering"),
        (KEYED, "pk-clustering-override", "unsupported-key-clustering"),
        ({}, "chain-table.enabled", "unsupported-chain-table"),
        ({}, OPTION, "unsupported-query-auth"),
    ],
)


@REFUSED
def test_unreadable_option_is_not_created(tmp_path, more, option, kind):
    catalog = new_catalog_in(tmp_path)
    options = {option: "true", "bucket": "1"} if more else {option: "true"}
    with pytest.raises(UnsupportedFeatureError, match=r"'db\.t' is not created") as refused:
        catalog.create_table("db.t", Schema.of({"id": "INT"}, options=options, **more))
    assert (refused.value.kind, catalog.list_tables("db")) == (kind, [])
    assert option in refused.value.message


@REFUSED
def test_unreadable_option_is_not_set(tmp_path, more, option, kind):
    catalog = new_catalog_in(tmp_path)
    options = {"bucket": "1"} if more else {}
    table = new_table(catalog, {"id": "INT"}, options=options, **more)
    for alter in (table.alter, table.alter_checked, table.plan_alter):
        with refused(UnsupportedFeatureError, "is not altered", kind=kind):
            alter([set_option(option, "true")])
    assert table.refresh().schema == table.schema


def test_foreign_unreadable_table_may_be_altered(tmp_path):
    catalog = new_catalog_in(tmp_path)
    schema = Schema.of({"id": "INT"}, options={"chain-table.enabled": "true"})
    catalog._catalog.create_table(Identifier(database="db", table="t"), schema)
    table = catalog.get_table("db.t").alter([set_option("snapshot.time-retained", "1 d")])
    table = table.alter([remove_option("chain-table.enabled")])
    assert table.to_arrow().num_rows == 0


def test_authorising_catalog_creates_such_tables(catalog):
    table = new_table(catalog, {"id": "INT"}, name="db.judged", options={OPTION: "true"})
    assert table.to_arrow().num_rows == 0


def test_plain_read_is_allowed_and_asks_for_its_columns(catalog, auth_requests):
    read = catalog.get_table("db.t").new_read_builder().with_columns(["id"])
    assert read.to_arrow()["id"].to_pylist() == [1, 2]
    assert read.with_filter("id > 1").to_arrow()["id"].to_pylist() == [2]
    assert set(auth_requests) == {("id",)}


def test_masked_or_filtered_read_is_refused(catalog, auth_requests):
    read = catalog.get_table("db.t").new_read_builder().with_columns(["id"])
    with refused(UnsupportedFeatureError, kind="unsupported-query-auth"):
        read.with_filter("masked = 'a'").to_arrow()
    assert auth_requests == [("id", "masked")]


def test_forbidden_rows_are_not_read(catalog, auth_requests):
    read = catalog.get_table("db.t").new_read_builder()
    with pytest.raises(AccessDeniedError):
        read.to_arrow()
    with pytest.raises(AccessDeniedError):
        read.with_filter("secret = 'c'").count()
    assert (read.count(), auth_requests[-1]) == (2, ("id",))


def test_table_without_option_needs_no_authorisation(catalog, auth_requests):
    catalog.alter_table("db.t", [set_option(OPTION, "false")])
    assert catalog.get_table("db.t").to_arrow().num_rows == 2
    assert auth_requests == []


def test_missing_authority_is_refusal(tmp_path):
    table = new_table(tmp_path, {"id": "INT"})
    with pytest.raises(UnsupportedFeatureError, match="only its catalog knows"):
        table.copy({OPTION: "true"}).to_arrow()
