"""Statistics: each side leaves out the files that the other's statistics rule out."""

from typing import Any

import pytest

from paimon_assets.engine.spec.schema.schema import Schema
from tests.interop.cases import CASES
from tests.interop.steps import Chore, JavaSide, Keep, OurSide, Side, Write
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop

COLUMNS = {"id": "INT", "price": "DECIMAL(12, 2)", "day": "DATE", "name": "STRING", "v": "DOUBLE"}
MODES: dict[str, dict[str, str]] = {
    "default": {},
    "full": {"metadata.stats-mode": "full"},
    "one_column": {"metadata.stats-mode": "none", "fields.name.stats-mode": "full"},
    "first_two": {"metadata.stats-keep-first-n-columns": "2"},
    "none": {"metadata.stats-mode": "none"},
}
KNOWS_NAMES = {"default", "full", "one_column"}
KNOWS_IDS = {"default", "full", "first_two"}


def _rows(start: int) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"id": n, "price": None, "day": None, "name": f"name {n}", "v": None if n % 2 else n / 2}
        for n in range(start, start + 5)
    )


@pytest.mark.parametrize("is_dense", ["true", "false"])
@pytest.mark.parametrize("mode", MODES)
def test_each_prunes_by_statistics_of_other(
    mode: str, is_dense: str, java: Oracle, ours: OurSide
) -> None:
    options = {"bucket": "-1", "metadata.stats-dense-store": is_dense, **MODES[mode]}
    table = ours.create(f"statistics.{mode}_{is_dense}", Schema.of(COLUMNS, options=options))
    sides: tuple[Side, ...] = (ours, JavaSide(java, ours))
    for number, side in enumerate(sides * 2):
        side.do(table.name, Write(_rows(10 + number * 10)))
    for column, literal, known in (("id", 12, KNOWS_IDS), ("name", "name 23", KNOWS_NAMES)):
        read = table.new_read_builder().with_filter(f"{column} = {literal!r}")
        planned = sorted(
            file.file_name for split in read.plan().splits for file in split.data_files
        )
        asked = {"column": column, "function": "equal", "literals": [literal]}
        assert java.call("files", table=table.name, filter=asked) == planned
        assert len(planned) == (1 if mode in known else 4)
        assert len(java.call("rows", table=table.name, filter=asked)) == 1
        assert read.to_arrow().num_rows == 1


def test_java_commits_on_statistics_of_every_type(java: Oracle, ours: OurSide) -> None:
    case = next(case for case in CASES if "f_time" in case.columns and not case.primary_keys)
    table = ours.create("statistics.analyzed", case.schema)
    ours.do(table.name, Write(case.commits[0]))
    ours.do(table.name, Keep(Chore.ANALYZE))
    JavaSide(java, ours).do(table.name, Write(case.commits[0]))
    assert table.new_read_builder().to_arrow().num_rows == 2 * len(case.commits[0])
