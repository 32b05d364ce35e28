"""Another implementation in its own environment, asked by a pipe; it is never imported here.

One child process answers one JSON line per request; tables travel as Arrow IPC files.
"""

import json
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.feather as feather


class OracleError(Exception):
    """The other implementation raised; the message is its traceback."""


class Oracle:
    """A running peer.

    Source:
        The protocol is served by `tests/interop/peers/serve.py`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        exchange: Path,
        working_directory: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._exchange = exchange
        self._log = (exchange / f"oracle-{uuid.uuid4().hex}.log").open("w+")
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=working_directory,
            env=None if environment is None else dict(environment),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        try:
            self._process.wait(timeout=60)
        finally:
            self._process.kill()
        self._log.close()

    def call(self, command: str, **arguments: Any) -> Any:
        """Ask, and return the JSON answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise OracleError("the oracle has no pipes")
        stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            self._log.seek(0)
            raise OracleError(f"the oracle died: {self._log.read()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise OracleError(answer["error"])
        return answer["result"]

    def write(self, table: str, rows: pa.Table, command: str = "write") -> None:
        """Let the peer append (or upsert) rows and commit; or update columns by row id."""
        path = self._exchange / f"{uuid.uuid4().hex}.arrow"
        feather.write_feather(rows, str(path), compression="uncompressed")
        self.call(command, table=table, rows=str(path))

    def read(self, table: str, **more: Any) -> pa.Table:
        path = self._exchange / f"{uuid.uuid4().hex}.arrow"
        self.call("read", table=table, out=str(path), **more)
        return feather.read_table(str(path), memory_map=False)
