"""A registry of schemas: answers the requests of Confluent's API that readers send."""

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from tests.testkit.http_servers import Handler, LocalServer

USER = "reader:se:cret"


class RegistryServer(LocalServer):
    """Schemas by number, and referenced schemas by subject and version."""

    def __init__(self, schemas: Mapping[int, Any], *, has_user: bool = False) -> None:
        super().__init__()
        self.schemas: dict[int, Any] = {
            number: {"schema": json.dumps(schema)} for number, schema in schemas.items()
        }
        self.subjects: dict[tuple[str, int], Any] = {}
        self.asked: list[str] = []
        self.status = 200
        self._wanted = f"Basic {base64.b64encode(USER.encode()).decode()}" if has_user else None

    def answer(self, handler: Handler, body: bytes) -> None:
        self.asked.append(handler.path)
        status, found = self.status, None
        match [unquote(part) for part in handler.path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
            case ["subjects", name, "versions", version]:
                found = self.subjects.get((name, int(version)))
            case _:
                pass
        if self._wanted not in (None, handler.headers.get("Authorization")):
            status, found = 401, {"error_code": 401, "message": "Unauthorized"}
        elif found is None:
            status, found = 404, {"error_code": 40403, "message": "Schema not found"}
        text = json.dumps(found).encode()
        handler.reply(status, [("Content-Length", str(len(text)))], text)
