import pytest

from paimon_assets.engine.contract.tasks.report_tasks import (
    FileFooter,
    FooterContext,
    FooterRequest,
    dump_footers,
    load_footers,
)
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata.simple_stats import SimpleStats
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
from paimon_assets.engine.spec.segments.segment import FileColumn

_COLUMNS = (
    FileColumn(name="ä", type_text="INT"),
    FileColumn(name="b", type_text="x", may_be_null=False),
)
_STATS = SimpleStats(min_values=b"low", max_values=b"high", null_counts=(3, None))


def test_requests_and_contexts_come_back():
    request = FooterRequest(paths=("file:/ä", "b"), sizes=(1, 2**40))
    assert load(FooterRequest, dump(request)) == request
    schema = first_table_schema(Schema.of({"a": "INT"}), time_millis=1)
    context = FooterContext(format="orc", schema=schema, options={"sep": ";"})
    assert load(FooterContext, dump(context)) == context


def test_footers_come_back_and_share_their_columns():
    footers = [
        FileFooter(rows=2**40, columns=_COLUMNS, stats_columns=("ä", "b"), stats=_STATS),
        FileFooter(rows=0, columns=_COLUMNS),
        FileFooter(rows=1, columns=_COLUMNS, stats_columns=("ä", "b"), stats=_STATS),
    ]
    data = dump_footers(footers)
    found = load_footers(data)
    assert found == footers
    assert found[0].columns is found[2].columns
    assert load_footers(dump_footers([])) == []
    with pytest.raises(FormatError):
        load_footers(data[:-3])
