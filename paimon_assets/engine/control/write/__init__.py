"""What a writer must know before it writes: sequence numbers, bucket counts, indexes of keys."""
