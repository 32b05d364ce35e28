"""Paimon's data types, their texts and values, and which type may become which."""
