"""Add-on: rows erased from all history of a table, and from all its files.

Concept → modules:
    finding the rows, and the order of all steps      run
    one file without them: a task, for any executor   task, rows
    metadata without them                             metadata
    ledgers that name them                            ledgers
    CALL and the command                              operations, command
"""

from typing import TYPE_CHECKING

from paimon_assets.lazy_door import lazy_door

if TYPE_CHECKING:
    from paimon_assets.erasure.run import ErasedPlace as ErasedPlace
    from paimon_assets.erasure.run import EraseReport as EraseReport
    from paimon_assets.erasure.run import History as History
    from paimon_assets.erasure.run import erase as erase

__all__, __getattr__, __dir__ = lazy_door(
    __name__, {"erasure.run": "ErasedPlace EraseReport History erase"}
)
