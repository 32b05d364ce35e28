"""Values in checks and errors are bounded in size, and left out on request."""

import json
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pandas as pd
import pandera.pyarrow as pap
import pyarrow as pa
import pytest

from paimon_assets.assets import (
    CheckOptions,
    PaimonCatalogResource,
    build_overflow_check,
    build_pandera_checks,
    build_unique_key_check,
    paimon_asset,
)
from paimon_assets.engine.spec.evolution.schema_change import UpdateColumnType
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot
from tests.testkit.asset_tables import asset_of, failure_text, run

pytestmark = pytest.mark.slow

SECRET = "secret" * 2_000
SCHEMA = Schema.of({"name": "STRING", "n": "INT"})
ROWS = pa.table({"name": [SECRET, SECRET], "n": pa.array([4711, 4711], pa.int32())})
SHORT = pap.DataFrameSchema({"name": pap.Column(str, pap.Check.str_length(max_value=3))})
HIDDEN = CheckOptions(show_values=False)
TO_SHORT = [
    UpdateColumnType(
        field_names=("name",),
        new_data_type=AtomicType(root=TypeRoot.VARCHAR, length=3),
        keep_nullability=True,
    )
]


@paimon_asset("people.names", SCHEMA)
def names() -> pa.Table:
    return ROWS


def checks(options: CheckOptions) -> Iterator[dg.AssetChecksDefinition]:
    """Yield one check of each kind that shows values."""
    yield build_pandera_checks(names, SHORT, options=options)
    yield build_unique_key_check(names, ["name", "n"], options=options)
    yield build_overflow_check(names, TO_SHORT, options=options)


def text_of(evaluation: dg.AssetCheckEvaluation) -> str:
    """Return the description and metadata of a check as text."""
    metadata: Any = {
        name: [dict(record.data) for record in value.records]
        if isinstance(value, dg.TableMetadataValue)
        else str(value.value)
        for name, value in evaluation.metadata.items()
    }
    return f"{evaluation.description}{json.dumps(metadata)}"


@pytest.mark.parametrize("is_resource", [True, False], ids=["resource", "check"])
def test_checks_shorten_or_hide_values(
    paimon: PaimonCatalogResource, warehouse: str, is_resource: bool
) -> None:
    result = run([names, *checks(CheckOptions())], paimon)
    evaluations = result.get_asset_check_evaluations()
    assert [evaluation.passed for evaluation in evaluations] == [False] * 3
    for evaluation in evaluations:
        assert "secretsecret" in text_of(evaluation), evaluation.check_name
        assert len(text_of(evaluation)) < 2_000

    hiding = PaimonCatalogResource(warehouse=warehouse, executor="embedded", show_values=False)
    hidden = (
        run([names, *checks(CheckOptions())], hiding)
        if is_resource
        else run([names, *checks(HIDDEN)], paimon)
    )
    for evaluation in hidden.get_asset_check_evaluations():
        assert not evaluation.passed
        assert "secret" not in text_of(evaluation), evaluation.check_name
        assert "4711" not in text_of(evaluation), evaluation.check_name
        assert "(not shown)" in text_of(evaluation)


def test_check_may_show_values_that_resource_hides(warehouse: str) -> None:
    hiding = PaimonCatalogResource(warehouse=warehouse, executor="embedded", show_values=False)
    check = build_unique_key_check(names, ["n"], options=CheckOptions(show_values=True))
    [evaluation] = run([names, check], hiding).get_asset_check_evaluations()
    assert "4711" in text_of(evaluation)


KEYS = dg.StaticPartitionsDefinition(["a", "b"])


@pytest.mark.parametrize("show", [True, False])
@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (pa.table({"name": [SECRET], "n": [1]}), "outside-partition"),
        (pa.table({"name": ["a"], "n": [2**40 + 4711]}), "input-value"),
        (pd.DataFrame({"name": ["a"], "n": [4711.5]}), "frame-values"),
        (pd.DataFrame({"name": pd.Series([4711], dtype=object), "n": [1]}), "frame-values"),
    ],
    ids=["outside", "input", "float", "object"],
)
def test_write_errors_shorten_or_hide_values(
    warehouse: str, frame: Any, kind: str, show: bool
) -> None:
    parts = asset_of(
        "people.parts", SCHEMA, frame, partitions_def=KEYS, partition_column="name", mode="append"
    )
    paimon = PaimonCatalogResource(warehouse=warehouse, executor="embedded", show_values=show)
    result = run(parts, paimon, partition_key="a")
    text = failure_text(result)
    assert len(text) < 2_000
    is_shown = "secretsecret" in text or "4711" in text or "1099511632487" in text
    assert is_shown == show, text
    [event] = [event for event in result.all_events if event.is_step_failure]
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    assert failure.metadata["paimon/error_kind"].value == kind
