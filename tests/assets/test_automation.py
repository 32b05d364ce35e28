"""Dagster's own evaluation of automation conditions, on tables that really change."""

from collections.abc import Callable

import dagster as dg
import pyarrow as pa
import pytest

from paimon_assets.assets import PaimonCatalogResource, on_new_data, paimon_asset
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from tests.testkit.asset_tables import PLANES, lent_instance, planes

pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")


def test_only_new_data_requests_downstream_assets(paimon: PaimonCatalogResource) -> None:
    frames: list[pa.Table | None] = []

    @paimon_asset("air.planes", PLANES)
    def some_planes() -> pa.Table | None:
        return frames.pop() if frames else None

    @dg.asset(deps=[some_planes], automation_condition=on_new_data())
    def downstream() -> None: ...

    definitions = dg.Definitions(assets=[some_planes, downstream], resources={"paimon": paimon})
    asked = []
    with lent_instance() as instance:

        def materialize(*assets: dg.AssetsDefinition) -> None:
            assert dg.materialize(
                [some_planes, downstream],
                selection=list(assets),
                resources={"paimon": paimon},
                instance=instance,
            ).success

        def new_data() -> None:
            frames.append(planes(("N1", 1, None)))
            materialize(some_planes)

        def nothing_new() -> None:
            materialize(some_planes)

        def compaction() -> None:
            store = paimon.catalog().get_table("air.planes").new_read_builder().store
            FileStoreCommit(store).commit(
                [], commit_user="compactor", commit_identifier=1, kind=CommitKind.COMPACT
            )
            materialize(some_planes)

        new_data()
        materialize(downstream)
        cursor = dg.evaluate_automation_conditions(defs=definitions, instance=instance).cursor
        acts: list[Callable[[], None]] = [new_data, nothing_new, compaction, new_data]
        for act in acts:
            act()
            evaluated = dg.evaluate_automation_conditions(
                defs=definitions, instance=instance, cursor=cursor
            )
            cursor = evaluated.cursor
            asked.append(evaluated.total_requested)
            if evaluated.total_requested:
                materialize(downstream)
    assert asked == [1, 0, 0, 1]
