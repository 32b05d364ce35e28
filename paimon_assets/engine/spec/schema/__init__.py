"""Schemas, declared and stored, with ids, keys and options; and the system columns
(`special_fields`).
"""
