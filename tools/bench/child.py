"""One step of one engine in a process of its own, so that the peak of memory is the step's.

    python -m tools.bench.child '{"engine": …, "module": …, "step": …, …}'

Imports, loading the input, creating the table and opening the catalog are not timed.
"""

import importlib
import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tools.bench.workload import TABLES, UPSERTS, load_input


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A timed step: one write or one read of one table."""

    table: str
    """Key of `workload.TABLES`."""
    input: str | None
    """Input that is written; None reads the table."""
    creates: bool = False


STEPS = {
    "pk_write": Step(table="pk", input="pk0", creates=True),
    **{
        f"pk_upsert{number}": Step(table="pk", input=f"pk{number}")
        for number in range(1, UPSERTS + 1)
    },
    "pk_read": Step(table="pk", input=None),
    "append_write": Step(table="append", input="append", creates=True),
    "append_read": Step(table="append", input=None),
}
"""In the order they must run: later ones read the tables of earlier ones."""


def checksum(table: pa.Table) -> dict[str, Any]:
    """Return values that do not depend on the order of rows."""
    return {
        "rows": table.num_rows,
        "sum_id": pc.sum(table["id"]).as_py(),
        "sum_qty": pc.sum(table["qty"]).as_py(),
    }


def peak_mib() -> float:
    """Return the largest memory this process ever held, in MiB.

    Linux adds the memory of the *parent* to `ru_maxrss`, so its own record of the process is asked.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run one step and return its seconds, CPU seconds, peak memory and checksum."""
    step = STEPS[request["step"]]
    peer = importlib.import_module(request["module"]).Peer(request["warehouse"])
    declared = TABLES[step.table]
    # Writes of repetition i go to table i; the first is the one that is read.
    name = f"bench.{step.table}{request['repetition'] if step.input else 0}"
    rows = None
    if step.input is not None:
        rows = load_input(step.input, request["scale"], Path(request["inputs"]))
    if step.creates:
        peer.create_table(name, declared.columns, list(declared.primary_keys), [], declared.options)
    cpu, start = time.process_time(), time.perf_counter()
    if rows is None:
        result = peer.read(name)
    else:
        peer.write(name, rows)
        result = rows
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_mib": peak_mib(),
        "version": peer.version(),
        **checksum(result),
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
