import pyarrow as pa
import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.table.schema.schema_inference import infer_schema


@pytest.mark.parametrize("nested", [pa.null(), pa.struct([("inner", pa.null())])])
def test_a_column_without_a_type_is_named(nested: pa.DataType) -> None:
    schema = pa.schema([("id", pa.int64()), ("remark", nested)])
    with pytest.raises(InvalidInputError, match=r"Column 'remark'.*null") as raised:
        infer_schema(schema)
    assert (raised.value.kind, raised.value.details["column"]) == ("arrow-type", "remark")
