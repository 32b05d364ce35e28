"""Bloom filters and bitmaps of one data file's columns, and filters evaluated on them."""
