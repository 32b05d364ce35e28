"""Data tokens of tables."""

import logging
from http import HTTPStatus

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.server.principals import Action
from paimon_assets.server.refusal import Refusal, forbidden, not_implemented
from paimon_assets.server.request import Request
from paimon_assets.server.routes import Answer
from paimon_assets.server.service import Service

logger = logging.getLogger(__name__)


def get_table_token(service: Service, request: Request) -> Answer:
    """Answer the storage token of a table: for writing with `update`, else for reading."""
    name = service.named(request).table
    updates = request.principal.may(Action.UPDATE, name.database, name.table)
    action = Action.UPDATE if updates and not service.read_only else Action.SELECT
    if service.data_tokens is None:
        request.require(Action.DESCRIBE, name.database, name.table)
        raise not_implemented("data tokens: clients need credentials")
    table = service.table(request, action)
    if table.is_external:
        raise not_implemented("data tokens of external tables: clients need credentials")
    try:
        token = service.data_tokens.issue(action, service.clock.now_millis())
    except InvalidInputError as error:
        logger.error("request %s: %s", request.id, error.message)  # noqa: TRY400 - no stack
        raise Refusal(
            HTTPStatus.INTERNAL_SERVER_ERROR, f"No token can be issued; request {request.id}."
        ) from error
    if token is None:
        raise forbidden("TABLE", name.table)
    request.noted["token"] = action.value
    return token.to_json()
