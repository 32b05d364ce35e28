"""The registry of segments, the folders they come from, and where folders may be
(`segment_roots`).
"""
