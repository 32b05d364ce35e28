"""The index of all table options: key, type, default and meaning of each that this engine obeys.

They are declared in `<topic>_options.py`; other packages import them from here. The list for
people is `docs/options.md`. Options are read through the table: `options.get(BUCKET)` is an
`int`. Keys that are not listed are kept and written back (other engines wrote them).
Source: `org.apache.paimon.CoreOptions`.
"""

# ruff: noqa: F403, F405 - the index exports all names of its modules

from paimon_assets.engine.add_ons import ADD_ONS
from paimon_assets.engine.spec.options.commit_options import *
from paimon_assets.engine.spec.options.compaction_options import *
from paimon_assets.engine.spec.options.file_options import *
from paimon_assets.engine.spec.options.maintenance_options import *
from paimon_assets.engine.spec.options.merge_options import *
from paimon_assets.engine.spec.options.option import *
from paimon_assets.engine.spec.options.scan_options import *
from paimon_assets.engine.spec.options.schema_options import *
from paimon_assets.engine.spec.options.table_options import *
from paimon_assets.engine.spec.options.write_options import *

ALL_OPTIONS: tuple[Option[object], ...] = tuple(
    value
    for names in (dict(globals()), *(vars(each.load("options")) for each in ADD_ONS))
    for value in names.values()
    if isinstance(value, Option)
)
"""Every option, in order; the documentation is generated from it."""
