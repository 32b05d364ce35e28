"""Whether a worker sees the same storage as the driver: one path, looked up from both."""

import base64
import json

from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.errors import CREDENTIALS_OVER, PaimonError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.spark.failure import WorkerError


def storage_look(spec: FileIOSpec, path: str) -> str:
    """Return what `unseen` looks up; empty if the driver does not see it either."""
    try:
        is_seen = open_file_io(spec).exists(path)
    except PaimonError:
        return ""  # the work itself will say why
    return json.dumps([base64.b64encode(dump(spec)).decode(), path]) if is_seen else ""


def unseen(look: str) -> str | None:
    """Return why this process does not see a path; None if it does."""
    encoded, path = json.loads(look)
    spec = load(FileIOSpec, base64.b64decode(encoded))
    try:
        is_seen = open_file_io(spec).exists(path)
    except PaimonError as error:
        if error.kind in CREDENTIALS_OVER:
            raise WorkerError(error) from error
        return f"{path}: {error.message}"
    return None if is_seen else f"{path} does not exist there"
