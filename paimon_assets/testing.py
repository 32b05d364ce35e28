"""For tests of your assets: a warehouse in memory, rows in, rows out."""

from paimon_assets.assets.memory_warehouse import MemoryWarehouse

__all__ = ["MemoryWarehouse"]
