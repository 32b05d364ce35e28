"""State that writers start from: sequence numbers, bucket counts, indexes of keys."""
