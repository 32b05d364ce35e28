"""Paimon's data types, their texts and values, row kinds, and which type may become which."""
