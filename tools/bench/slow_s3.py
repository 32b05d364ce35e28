"""An S3 server each of whose requests takes a while more, as those of a far one do, and is counted.

python -m tools.bench.slow_s3 MILLISECONDS

Prints the catalog options that reach it, and serves until its input ends.
"""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from urllib.parse import urlsplit

from jobs.demo.s3_server import ROOT, s3_server
from tests.testkit.http_servers import Handler, LocalServer

BUCKET = "lake"
_COUNT = "/-count"


class _Slow(LocalServer):
    def __init__(self, upstream: str, seconds: float) -> None:
        super().__init__()
        self._upstream, self._seconds = urlsplit(upstream).netloc, seconds
        self._numbers = count()

    def answer(self, handler: Handler, body: bytes) -> None:
        number = next(self._numbers)
        if handler.path == _COUNT:
            text = str(number).encode()
            handler.reply(200, [("Content-Length", str(len(text)))], text)
            return
        time.sleep(self._seconds)
        handler.reply(*handler.forward(self._upstream, body))


@contextmanager
def slow_s3(milliseconds: int) -> Iterator[dict[str, str]]:
    """Run a server with the empty bucket `BUCKET`, and yield the catalog options to reach it."""
    command = [sys.executable, "-m", __name__, str(milliseconds)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe) as process:
        yield json.loads(process.stdout.readline() if process.stdout else "")


def requests(options: dict[str, str]) -> int:
    """Return how many requests a server has answered, those for this number too."""
    with urllib.request.urlopen(options["s3.endpoint"] + _COUNT) as answer:  # noqa: S310 - our own
        return int(answer.read())


def main(milliseconds: str) -> None:
    with s3_server(BUCKET) as options:
        slow = _Slow(options["s3.endpoint"], int(milliseconds) / 1000)
        with slow.running() as proxy:
            sys.stdout.write(json.dumps({**options, "s3.endpoint": proxy.uri}) + "\n")
            sys.stdout.flush()
            sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
