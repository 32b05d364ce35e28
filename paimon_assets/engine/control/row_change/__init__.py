"""Plans of deletes and updates: which files a change must read, and which go as wholes."""
