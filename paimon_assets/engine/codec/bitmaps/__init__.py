"""Roaring bitmaps of 32 and 64 bits, and the deletion vectors made of them."""
