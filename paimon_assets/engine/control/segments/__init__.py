"""The registry of segments, their folders, and where folders may be (`segment_roots`)."""
