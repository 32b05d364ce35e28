"""Tables ⇄ DataFrames: reads, writes, merges, streams and files."""
