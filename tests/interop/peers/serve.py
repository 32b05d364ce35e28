"""Serve one peer over a pipe: a JSON line in, a JSON line out. Runs in the peers' environment.

python -m tests.interop.peers.serve pypaimon WAREHOUSE
"""

import importlib
import json
import sys
import traceback
from typing import Any

import pyarrow.feather as feather

PEERS = {
    "pypaimon": "tests.interop.peers.pypaimon_peer",
    "pypaimon-rust": "tests.interop.peers.rust_peer",
    "iceberg": "tests.interop.peers.iceberg_peer",
}


def answer(peer: Any, request: dict[str, Any]) -> Any:
    """Answer a request; tables are paths of Arrow IPC files."""
    match request.pop("command"):
        case "version":
            return peer.version()
        case "create":
            return peer.create_table(**request)
        case "write":
            rows = feather.read_table(request["rows"], memory_map=False)
            return peer.write(request["table"], rows)
        case "update_columns" | "delete_ids" as command:
            rows = feather.read_table(request["rows"], memory_map=False)
            return getattr(peer, command)(request["table"], rows)
        case "read":
            table = peer.read(**{name: request[name] for name in request.keys() - {"out"}})
            return feather.write_feather(table, request["out"], compression="uncompressed")
        case command:
            raise ValueError(f"unknown command {command}")


def main() -> None:
    """Answer until the pipe closes; prints of libraries are sent to stderr."""
    name, warehouse = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    peer = importlib.import_module(PEERS[name]).Peer(warehouse)
    for line in sys.stdin:
        try:
            reply = {"result": answer(peer, json.loads(line))}
        except BaseException:  # noqa: BLE001 - the process border: the caller gets the traceback
            reply = {"error": traceback.format_exc()}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
