from paimon_assets.engine.contract.tasks.report_tasks import (
    CastColumn,
    ColumnLosses,
    LostValue,
    OverflowContext,
    OverflowRequest,
    OverflowResult,
)
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.spec.types.cast_fit import Loss
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import parse_type
from tests.testkit.builders import data_file

HELD = DataField(id=3, name="old", type=parse_type("STRING"))
WANTED = DataField(id=3, name="new", type=parse_type("INT NOT NULL"), description="d")


def test_what_tasks_share_goes_both_ways():
    context = OverflowContext(
        table="db.t", options={"cast.dialect": "cpp"}, batch_rows=9, examples=2
    )
    assert load(OverflowContext, dump(context)) == context


def test_a_request_goes_both_ways():
    column = CastColumn(held=HELD, wanted=WANTED, forbids_null=True)
    request = OverflowRequest(path="/w/t/f.parquet", file=data_file(), columns=(column,))
    assert load(OverflowRequest, dump(request)) == request


def test_a_result_goes_both_ways():
    example = LostValue(loss=Loss.FAILED, value="x")
    losses = (
        ColumnLosses(
            column="new", rows=7, counts={Loss.FAILED: 1}, unjudged=2, examples=(example,)
        ),
        ColumnLosses(column="other", rows=7),
    )
    assert load(OverflowResult, dump(OverflowResult(columns=losses))).columns == losses
