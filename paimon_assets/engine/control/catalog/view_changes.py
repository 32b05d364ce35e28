"""What changes make of a view.

Source: `org.apache.paimon.view.ViewChange`.
"""

from collections.abc import Iterable
from dataclasses import replace

from paimon_assets.engine.codec.rest.resources import (
    AddDialect,
    DropDialect,
    RemoveViewOption,
    SetViewOption,
    UpdateDialect,
    UpdateViewComment,
    ViewChange,
    ViewSchema,
)
from paimon_assets.engine.errors import AlreadyExistsError, NotFoundError


def changed_view(view: ViewSchema, changes: Iterable[ViewChange]) -> ViewSchema:
    """Return a view after changes, made in their order.

    Raises:
        AlreadyExistsError: Kind `dialect-exists`: a dialect that is added is there.
        NotFoundError: Kind `dialect-not-found`: one that is updated or dropped is not.
    """
    for change in changes:
        view = _changed(view, change)
    return view


def _changed(view: ViewSchema, change: ViewChange) -> ViewSchema:
    options, dialects = dict(view.options), dict(view.dialects)
    match change:
        case SetViewOption(key=key, value=value):
            options[key] = value
        case RemoveViewOption(key=key):
            options.pop(key, None)
        case UpdateViewComment(comment=comment):
            return replace(view, comment=comment)
        case AddDialect(dialect=dialect, query=query):
            if dialect in dialects:
                raise AlreadyExistsError(
                    f"The view has a dialect '{dialect}' already.",
                    kind="dialect-exists",
                    details={"dialect": dialect},
                )
            dialects[dialect] = query
        case UpdateDialect(dialect=dialect, query=query):
            _existing(dialects, dialect)
            dialects[dialect] = query
        case DropDialect(dialect=dialect):
            _existing(dialects, dialect)
            del dialects[dialect]
    return replace(view, options=options, dialects=dialects)


def _existing(dialects: dict[str, str], dialect: str) -> None:
    if dialect not in dialects:
        raise NotFoundError(
            f"The view has no dialect '{dialect}'.",
            kind="dialect-not-found",
            details={"dialect": dialect},
        )
