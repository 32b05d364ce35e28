"""The registry of segments, their folders, and where folders may lie."""
