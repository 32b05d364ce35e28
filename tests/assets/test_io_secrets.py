"""No secret of the storage is in the event log of a run."""

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets import Schema, assets
from tests.testkit.asset_tables import instance_beside

pytestmark = pytest.mark.slow

SECRETS = {"KEY_ID": "AKIAHUNTER", "SECRET": "hunter2", "TOKEN": "session-hunter"}
NOWHERE = "http://127.0.0.1:1"
SCHEMA = Schema.of({"id": "BIGINT"}, primary_keys=["id"], options={"bucket": "1"})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the secrets, and one try of each step."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(assets.failures, "MAX_RETRIES", 0)


def lake(warehouse: str, *, is_secret_named: bool = True) -> assets.PaimonCatalogResource:
    """Return a catalog with secrets by variable name, or as plain values."""

    def secret(name: str) -> Any:
        return dg.EnvVar(name) if is_secret_named else SECRETS[name]

    return assets.PaimonCatalogResource(
        warehouse=warehouse,
        executor="embedded",
        options={
            "s3.endpoint": NOWHERE,
            "s3.access-key": secret("KEY_ID"),
            "s3.secret-key": secret("SECRET"),
            "s3.session-token": secret("TOKEN"),
        },
        spark=assets.PaimonSparkResource(
            extra={"spark.hadoop.fs.s3a.secret.key": secret("SECRET")}
        ),
    )


def run_and_log(paimon: assets.PaimonCatalogResource, frame: Any, beside: str) -> tuple[bool, str]:
    """Return the success of a run, and the text of its event log."""

    @dg.asset(key=["d", "t"], metadata=assets.paimon_output(schema=SCHEMA, mode="append"))
    def table(context: dg.AssetExecutionContext) -> Any:
        context.log.info("The lake is %s", paimon)
        return frame

    place = assets.PaimonCatalogResource(warehouse=beside, executor="embedded")
    with instance_beside(place) as instance:
        manager = assets.PaimonIOManager(paimon=paimon)
        result = dg.materialize(
            [table], resources={"io_manager": manager}, instance=instance, raise_on_error=False
        )
        entries = instance.all_logs(result.run_id)
    texts = [f"{entry.user_message} {entry.message} {entry.to_json()}" for entry in entries]
    return result.success, "\n".join(texts)


ROWS = pa.table({"id": pa.array([1], pa.int64())})
BAD = pa.table({"id": pa.array([None], pa.int64())})


@pytest.mark.parametrize(
    ("place", "frame", "succeeds", "is_secret_named"),
    [
        ("local", ROWS, True, True),
        ("local", ROWS, True, False),
        ("local", BAD, False, False),
        ("s3", ROWS, False, True),
    ],
    ids=["success", "success, plain values", "rows that are refused", "a storage that fails"],
)
def test_no_secret_is_in_log(
    place: str, frame: pa.Table, succeeds: bool, is_secret_named: bool, tmp_path: Path
) -> None:
    beside = str(tmp_path / "warehouse")
    warehouse = beside if place == "local" else "s3://lake/warehouse"
    success, log = run_and_log(lake(warehouse, is_secret_named=is_secret_named), frame, beside)
    assert success is succeeds
    assert "s3.secret-key" in log, "names of options may be seen"
    for value in SECRETS.values():
        assert value not in log
