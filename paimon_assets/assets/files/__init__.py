"""Assets that files feed: ingestion, segments, and their sensors."""
