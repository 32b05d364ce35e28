"""Tables ⇄ DataFrames: reads, writes, merges and streams, and where a DataFrame's columns come
from.
"""
