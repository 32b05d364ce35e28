"""The alterations of a view.

Written is what Java reads, such as `setOption`; `setViewOption`, a name of its specification, is
read too.
"""

from paimon_assets.engine.codec.rest.member_kinds import OPTIONAL_TEXT, TEXT
from paimon_assets.engine.codec.rest.structure import Kind, Structure, member, one_of, structure


@structure
class SetViewOption(Structure):
    """Set an option of the view."""

    key: str = member(TEXT)
    value: str = member(TEXT)


@structure
class RemoveViewOption(Structure):
    """Remove an option of the view."""

    key: str = member(TEXT)


@structure
class UpdateViewComment(Structure):
    """Set the view's comment; None removes it."""

    comment: str | None = member(OPTIONAL_TEXT, also=("key",))


@structure
class AddDialect(Structure):
    """Add the query of a dialect that has none."""

    dialect: str = member(TEXT)
    query: str = member(TEXT)


@structure
class UpdateDialect(Structure):
    """Change the query of a dialect that has one."""

    dialect: str = member(TEXT)
    query: str = member(TEXT)


@structure
class DropDialect(Structure):
    """Remove a dialect and its query."""

    dialect: str = member(TEXT)


ViewChange = (
    SetViewOption | RemoveViewOption | UpdateViewComment | AddDialect | UpdateDialect | DropDialect
)
"""One change."""

VIEW_CHANGE: Kind[ViewChange] = one_of(
    "action",
    {
        "setOption": SetViewOption,
        "removeOption": RemoveViewOption,
        "updateComment": UpdateViewComment,
        "addDialect": AddDialect,
        "updateDialect": UpdateDialect,
        "dropDialect": DropDialect,
    },
    also={
        "setViewOption": "setOption",
        "removeViewOption": "removeOption",
        "updateViewComment": "updateComment",
    },
)
"""The kind of a member that is a view's change."""
