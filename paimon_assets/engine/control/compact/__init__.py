"""What to compact, from manifests alone, and which results still fit when they are committed."""
