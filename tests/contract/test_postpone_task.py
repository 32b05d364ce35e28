"""What tasks that place waiting rows share survives the wire."""

import pytest

from paimon_assets.engine.contract.context import ReadContext, WriteContext
from paimon_assets.engine.contract.tasks.compact_task import PostponeContext
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema

SCHEMA = first_table_schema(
    Schema.of({"k": "INT"}, primary_keys=["k"], options={"bucket": "-2"}), time_millis=0
)
SPEC = FileIOSpec(scheme="file")
CONTEXT = PostponeContext(
    read=ReadContext(
        table="d.t", schema=SCHEMA, file_schemas=(), columns=("rowkind", "k"), file_io=SPEC
    ),
    write=WriteContext(table="d.t", table_path="/d/t", schema=SCHEMA, file_io=SPEC),
)


def test_a_context_comes_back():
    assert load(PostponeContext, dump(CONTEXT)) == CONTEXT


def test_damaged_bytes_are_refused():
    data = dump(CONTEXT)
    for cut in (0, 10, len(data) - 5):
        with pytest.raises(FormatError):
            load(PostponeContext, data[:cut])
