"""Plans compactions from manifests alone, and checks which results still fit at the commit."""
