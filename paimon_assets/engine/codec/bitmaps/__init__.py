"""Roaring bitmaps and the deletion vectors made of them."""
