"""Tables ⇄ DataFrames: reads, writes, merges, streams, and where columns come from."""
