"""The registry of segments, and the folders they come from."""
