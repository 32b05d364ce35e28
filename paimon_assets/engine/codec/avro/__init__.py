"""Avro containers, and the manifests that are stored in them."""
