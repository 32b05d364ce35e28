"""pypaimon with its native switches on: reads, writes, plans and commits by its Rust core."""

from typing import Any

from tests.interop.peers import pypaimon_peer

SWITCHES = (
    "read.native.enabled",
    "write.native.enabled",
    "commit.native.enabled",
    "scan.native-plan.enabled",
)


class Peer(pypaimon_peer.Peer):
    """As `pypaimon_peer.Peer`; the tables it makes ask for the native core."""

    def version(self) -> str:
        return f"{super().version()}, native switches on"

    def create_table(
        self,
        table: str,
        columns: dict[str, Any],
        primary_keys: list[str],
        partition_keys: list[str],
        options: dict[str, str],
    ) -> None:
        native = dict.fromkeys(SWITCHES, "true")
        super().create_table(table, columns, primary_keys, partition_keys, options | native)
