"""The connectors: how their records show values that did not arrive, and their order in the log.

    members of a record ─▶ its position, a text that sorts as the log does within one `log`

`CONNECTORS` is also the table of the page on change data capture.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from paimon_assets.cdc.records.json_columns import Array, kernels
from paimon_assets.engine.codec.arrow.numpy_columns import Flags, parts_of_texts
from paimon_assets.engine.data.casting.cast import truth_of
from paimon_assets.engine.spec.values import Value

Members: TypeAlias = Mapping[str, Array]
"""Name → texts; null where a record has no such member, or an empty one."""
_DIGITS, _SCN_DIGITS, _LSN_DIGITS = 19, 20, 32
ZERO = "0" * _DIGITS
_BINLOG = r"\.(?P<number>[0-9]+)$"
_STAYS = "stays as it is; null in an insert"
_SEQUENCE = r"^\W*(?P<commit>[0-9]+)\W+[0-9]+\W*$"


class Connector(Value):
    """One line of the table."""

    title: str
    absent: str = _STAYS
    """The meaning of a member that a row does not have."""
    null: str = "`null`"
    unchanged: str = "`unavailable.value.placeholder`"
    """How a row shows that a value did not arrive."""
    position: str
    new_log: str = "-"
    """The members of which another value begins another log."""
    refused: str = "-"
    names: tuple[str, ...] = ()
    """As `source.connector` has them; Debezium's alone."""
    shown_by: tuple[str, ...] = ()
    """Members that a record with a position has: one of them."""
    read: Callable[[Members, Array], Array] | None = None
    """Takes members and whether a row was read by a snapshot; returns positions, or null."""


def pad_digits(text: Array, digits: int = _DIGITS) -> Array:
    """Return numbers with zeros before them; null where a text is none."""
    bounds, data = parts_of_texts(text)
    sizes = np.diff(bounds)
    is_plain = sizes.max(initial=0) <= digits and data.min(initial=ord("0")) >= ord("0")
    if not is_plain or data.max(initial=0) > ord("9") or (sizes == 0).sum() > text.null_count:
        is_number = kernels.match_substring_regex(text, f"^[0-9]{{1,{digits}}}$")
        text = kernels.if_else(is_number, text, None)
    return kernels.ascii_lpad(text, digits, "0")


def joined_position(*parts: Array) -> Array:
    """Return positions of padded parts; null where one is null."""
    return kernels.binary_join_element_wise(*parts, ":")


def _mysql(members: Members, _: Array) -> Array:
    (number,) = kernels.extract_regex(members["file"], _BINLOG).flatten()
    row = kernels.fill_null(pad_digits(members["row"]), ZERO)
    return joined_position(pad_digits(number), pad_digits(members["pos"]), row)


def _postgres(members: Members, _: Array) -> Array:
    """Order transactions by the commit before them, and the changes of one by their LSN."""
    lsn = pad_digits(members["lsn"])
    lsn = kernels.if_else(kernels.less_equal(lsn, str(2**63 - 1)), lsn, None)
    (commit,) = kernels.extract_regex(members["sequence"], _SEQUENCE).flatten()
    commit = pad_digits(commit)
    if commit.null_count:
        before = kernels.subtract(lsn.cast(pa.int64()), pa.scalar(1)).cast(pa.string())
        commit = kernels.coalesce(commit, pad_digits(before), ZERO)
    return joined_position(commit, lsn, ZERO)


def _lsn(text: Array) -> Array:
    """Return hexadecimal numbers in groups as one of 32 digits."""
    text = kernels.utf8_lower(kernels.replace_substring(text, ":", ""))
    is_number = kernels.match_substring_regex(text, f"^[0-9a-f]{{1,{_LSN_DIGITS}}}$")
    return kernels.utf8_lpad(kernels.if_else(is_number, text, None), _LSN_DIGITS, "0")


def _within(commit: Array, parts: Sequence[Array], is_snapshot: Array) -> Array:
    """Return positions inside transactions; a snapshot has all that was committed before it."""
    parts = [kernels.if_else(is_snapshot, "~", kernels.fill_null(part, "")) for part in parts]
    return joined_position(commit, *parts)


def _sql_server(members: Members, is_snapshot: Array) -> Array:
    parts = [_lsn(members["change_lsn"]), pad_digits(members["event_serial_no"])]
    return _within(_lsn(members["commit_lsn"]), parts, is_snapshot)


def _oracle(members: Members, is_snapshot: Array) -> Array:
    scn = pad_digits(members["scn"], _SCN_DIGITS)
    commit = pad_digits(members["commit_scn"], _SCN_DIGITS)
    commit = kernels.if_else(is_snapshot, kernels.coalesce(commit, scn), commit)
    parts = [scn, kernels.utf8_trim_whitespace(members["rs_id"]), pad_digits(members["ssn"])]
    return _within(commit, parts, is_snapshot)


def _informix(members: Members, is_snapshot: Array) -> Array:
    parts = [pad_digits(members["change_lsn"])]
    return _within(pad_digits(members["commit_lsn"]), parts, is_snapshot)


_BACK = "a lower position, made later"

CONNECTORS = (
    Connector(
        title="Debezium: `mysql`, `mariadb`",
        names=("mysql", "mariadb"),
        unchanged="absent (`binlog_row_image`)",
        position="number in `file`, `pos`, `row`",
        new_log=f"`name`, `server_id`, name in `file`; {_BACK}",
        refused="a `file` without a number",
        shown_by=("file",),
        read=_mysql,
    ),
    Connector(
        title="Debezium: `postgresql`",
        names=("postgresql",),
        position="`sequence`: the last commit, `lsn`",
        new_log=f"`name`; {_BACK}",
        refused="an `lsn` that is no number",
        shown_by=("lsn",),
        read=_postgres,
    ),
    Connector(
        title="Debezium: `sqlserver`, `db2`",
        names=("sqlserver", "db2"),
        unchanged="does not occur",
        position="`commit_lsn`, `change_lsn`, `event_serial_no`",
        new_log=f"`name`; {_BACK}",
        refused="a change without `commit_lsn`",
        shown_by=("commit_lsn", "change_lsn"),
        read=_sql_server,
    ),
    Connector(
        title="Debezium: `oracle`",
        names=("oracle",),
        position="`commit_scn`, `scn`, `rs_id`, `ssn`; of a snapshot `scn`",
        new_log=f"`name`; {_BACK}",
        refused="a change without `commit_scn`",
        shown_by=("scn", "commit_scn", "lcr_position"),
        read=_oracle,
    ),
    Connector(
        title="Debezium: `informix`",
        names=("informix",),
        position="`commit_lsn`, `change_lsn`",
        new_log=f"`name`; {_BACK}",
        refused="a change without `commit_lsn`",
        shown_by=("commit_lsn", "change_lsn"),
        read=_informix,
    ),
    Connector(
        title="Debezium: `mongodb`, `vitess`, `spanner`, `cassandra`, all the rest",
        position="none",
        refused="all, but from a topic by `offset`",
    ),
    Connector(
        title="Debezium, records without `connector`",
        position="as their members are",
        new_log="as their members are",
    ),
    Connector(title="Canal", unchanged="does not occur", position="`ts`, `id`"),
    Connector(
        title="Maxwell",
        absent=f"null if `old` has it; else {_STAYS}",
        null="`null`, or absent (`output_nulls`)",
        unchanged="absent from `data` and `old`",
        position="number and offset in `position`, `xoffset`; without it `xid`, `xoffset`",
        new_log=f"`server_id`, name in `position`; {_BACK}",
    ),
)
_OF_DEBEZIUM = {name: each for each in CONNECTORS for name in each.names}
POSITION_MEMBERS = ("file", "pos", "row", "lsn", "sequence", "commit_lsn", "change_lsn",
                    "event_serial_no", "scn", "commit_scn", "rs_id", "ssn",
                    "lcr_position")  # fmt: skip
"""Of Debezium's `source`."""


def begin_with_commits(logs: Array) -> Flags:
    """Return which positions begin with that of a commit; those of MySQL begin with a file's."""
    ordered = [name for name, each in _OF_DEBEZIUM.items() if each.read is not _mysql]
    return truth_of(kernels.match_substring_regex(logs, f"^({'|'.join(ordered)}):"))


def debezium_positions(
    connector: Array, members: Members, is_snapshot: Array
) -> tuple[Array, Array]:
    """Return positions, and which records have one that cannot be read.

    Records that do not name their connector have the position that their members make.
    """
    nothing = pa.nulls(len(connector), pa.string())
    known = pa.array([*_OF_DEBEZIUM], pa.string())
    is_known = kernels.is_in(connector, known, skip_nulls=True)
    positions, is_shown = nothing, kernels.and_(connector.is_valid(), kernels.invert(is_known))
    for each in dict.fromkeys(_OF_DEBEZIUM.values()):
        shown = kernels.coalesce(*(members[name] for name in each.shown_by))
        if each.read is None or shown.null_count == len(shown):
            continue
        is_own = kernels.is_in(connector, pa.array([None, *each.names], pa.string()))
        own = kernels.if_else(is_own, each.read(members, is_snapshot), nothing)
        positions = kernels.coalesce(positions, own)
        is_shown = kernels.or_(is_shown, kernels.and_(is_own, shown.is_valid()))
    return positions, kernels.and_(is_shown, positions.is_null())
