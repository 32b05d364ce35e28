"""The Spark session: local, on a cluster or over Connect, and the Java it needs."""
