"""Bodies of requests and responses that the server alone reads and writes; no client here does.

Named as in Java: `org.apache.paimon.rest.requests`, `org.apache.paimon.rest.responses`.
"""

from collections.abc import Mapping
from typing import Annotated

from paimon_assets.engine.codec.rest import bodies, structure
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import Json


class RegisterTableRequest(structure.Structure):
    """A table that exists at a path already."""

    identifier: bodies.Identifier
    path: str


class RenameBranchRequest(structure.Structure):
    to_branch: str


class PartitionsRequest(structure.Structure):
    """Partitions to mark as done, or to list."""

    specs: tuple[Mapping[str, str], ...]


class CreatePartitionsRequest(structure.Structure):
    partition_specs: tuple[Mapping[str, str], ...]
    ignore_if_exists: bool = False


class DropPartitionsRequest(structure.Structure):
    partition_specs: Annotated[tuple[Mapping[str, str], ...], structure.Rules(also=("specs",))]
    ignore_if_not_exists: bool = False


class CreateFunctionRequest(structure.Structure):
    """A function to create; its definitions are kept as they are."""

    name: str
    input_params: tuple[DataField, ...] = ()
    return_params: tuple[DataField, ...] = ()
    deterministic: bool = False
    definitions: Mapping[str, Json] = {}
    comment: str | None = None
    options: Mapping[str, str] = {}


class AlterFunctionRequest(structure.Structure):
    """Changes of a function, kept as they are."""

    changes: tuple[Mapping[str, Json], ...]


class VersionSnapshotResponse(structure.Structure):
    snapshot: Snapshot


class CreatePartitionsResponse(structure.Structure):
    created: tuple[Mapping[str, str], ...] = ()
    existed: tuple[Mapping[str, str], ...] = ()


class DropPartitionsResponse(structure.Structure):
    dropped: tuple[Mapping[str, str], ...] = ()
    missing: tuple[Mapping[str, str], ...] = ()


class ListTableDetailsResponse(bodies.Page):
    table_details: tuple[bodies.TableResponse, ...]


class ListTablesGloballyResponse(bodies.Page):
    tables: tuple[bodies.Identifier, ...]


class ListViewDetailsResponse(bodies.Page):
    view_details: tuple[bodies.ViewResponse, ...]


class ListViewsGloballyResponse(bodies.Page):
    views: Annotated[tuple[bodies.Identifier, ...], structure.Rules(also=("tables",))]


class ListFunctionDetailsResponse(bodies.Page):
    function_details: tuple[bodies.FunctionResponse, ...]


class ListFunctionsGloballyResponse(bodies.Page):
    functions: tuple[bodies.Identifier, ...]


class ListSnapshotsResponse(bodies.Page):
    """A page of snapshots, in an order each server chooses."""

    snapshots: tuple[Snapshot, ...]


class ListPartitionsResponse(bodies.Page):
    partitions: tuple[bodies.Partition, ...]
