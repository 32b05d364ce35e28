"""A Python that has imported the modules of a program, and forks for each of its runs.

test ──a line of JSON──► host ──fork──► `python -m PROGRAM` with an environment of its own

A run is spared two seconds of a core. It imports those modules of the checkout again that read the
environment when they are imported.
"""

import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.testkit.processes import keep_migrations, read_migrations

ROOT = Path(__file__).resolve().parents[2]
_READ_ENVIRONMENT = ("jobs", "resources")


class WarmPython:
    def __init__(self, process: "subprocess.Popen[str]", scratch: Path) -> None:
        self._process, self._scratch, self._runs = process, scratch, 0

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        """Run the program to its end, as `subprocess.run` does; one run at a time."""
        self._runs += 1
        outputs = [self._scratch / f"{self._runs}.{name}" for name in ("out", "err")]
        asked = [list(arguments), dict(environment), *map(str, outputs)]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, *(path.read_text() for path in outputs))


@contextmanager
def warm_python(program: str, scratch: Path) -> Iterator[WarmPython]:
    """Host a program while the block runs."""
    command = [sys.executable, "-m", __name__, program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        yield WarmPython(process, scratch)


def _host(program: str) -> None:
    importlib.import_module(program)
    for name in [*sys.modules]:
        if name.partition(".")[0] in _READ_ENVIRONMENT:
            del sys.modules[name]
    keep_migrations()
    read_migrations()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _become(program, *json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _become(program: str, arguments: Any, environment: Any, out: str, err: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    with open(os.devnull) as nothing:  # noqa: PTH123 - a device
        os.dup2(nothing.fileno(), 0)
    for number, path in ((1, out), (2, err)):
        with Path(path).open("w") as file:
            os.dup2(file.fileno(), number)
    sys.argv = [program, *arguments]
    runpy.run_module(program, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    _host(sys.argv[1])
