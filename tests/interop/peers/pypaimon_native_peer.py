"""pypaimon with its native switches on: reads, writes, plans and commits by its Rust core."""

from typing import ClassVar

from tests.interop.peers import pypaimon_peer

SWITCHES = (
    "read.native.enabled",
    "write.native.enabled",
    "commit.native.enabled",
    "scan.native-plan.enabled",
)


class Peer(pypaimon_peer.Peer):
    """As `pypaimon_peer.Peer`; the tables it makes ask for the native core."""

    more_options: ClassVar[dict[str, str]] = dict.fromkeys(SWITCHES, "true")
    switches: ClassVar[str] = "on"
