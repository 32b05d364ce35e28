"""System tables: what a table knows of itself, as rows. Named `<table>$<name>`.

Concept → files:
    which there are, by name                  system_table
    snapshots, schemas, options, tags, …      metadata
    files, manifests, partitions, indexes     files
    rows with their kinds                     row_reads
"""

from paimon_assets.engine.table.system.system_table import SYSTEM_TABLES, SystemTable

__all__ = ["SYSTEM_TABLES", "SystemTable"]
